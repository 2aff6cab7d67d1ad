//! Randomly damaged archives: the importer always answers, and nothing changes outside the image.

use std::time::{Duration, Instant};

use pinfold_images::{ImportError, Limits};

use super::archive::{Archive, gzip, zstd};
use super::bundles::oci;
use super::fixture::Fixture;

const SEED: u64 = 20_261_116;
const ROUNDS: usize = 400;
const LONGEST: Duration = Duration::from_secs(8);

fn seeds() -> Vec<Vec<u8>> {
    let rich = Archive::new()
        .directory("d")
        .file("d/f", &"text".repeat(300))
        .symlink("d/l", "../..")
        .hard_link("h", "d/f")
        .extension(b'L', b"long/name\0")
        .file("x", "")
        .pax(&[("path", b"pax/name"), ("mtime", b"12.5"), ("size", b"3")])
        .file("y", "abc")
        .file("d/.wh.gone", "")
        .file("d/.wh..wh..opq", "");
    let rich = rich.done();
    vec![gzip(&rich), zstd(&rich), oci(std::slice::from_ref(&rich), gzip).tar(), rich]
}

fn mutate(bytes: &mut Vec<u8>, chance: &mut fastrand::Rng) {
    for _ in 0..chance.usize(1..6) {
        let at = chance.usize(..bytes.len());
        match chance.u8(..5) {
            0 => bytes[at] = chance.u8(..),
            1 => bytes[at] ^= 1 << chance.u8(..8),
            2 => bytes.truncate(at.max(1)),
            3 => bytes.extend_from_within(at..),
            _ => {
                bytes.remove(at);
                bytes.push(0);
            }
        }
    }
}

/// Recomputes header checksums, so that damage gets past that check.
fn correct_checksums(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(512).filter(|block| &block[257..262] == b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

#[test]
fn a_randomly_damaged_archive_is_refused_or_harmless() {
    let fixture = Fixture::limited(Limits { seconds: 10, total_bytes: 64 << 20, ..Limits::default() });
    let mut chance = fastrand::Rng::with_seed(SEED);
    let seeds = seeds();
    let began = Instant::now();
    let (mut taken, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        if began.elapsed() > LONGEST {
            break;
        }
        let mut bytes = seeds[round % seeds.len()].clone();
        mutate(&mut bytes, &mut chance);
        if chance.bool() {
            correct_checksums(&mut bytes);
        }

        match fixture.import(&bytes, "app") {
            Ok(_) => {
                taken += 1;
                fixture.images.remove("app", |_| vec![]).unwrap();
            }
            Err(ImportError::Refused { .. } | ImportError::Bundle(_) | ImportError::Content { .. }) => {
                refused += 1
            }
            Err(error) => panic!("seed {SEED}, round {round}: {error}"),
        }
    }
    assert!(taken > 0 && refused > 0, "{taken} were taken and {refused} refused");
    fixture.assert_nothing_unfinished();
}
