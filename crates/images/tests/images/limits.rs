//! Archives that are small outside and want to be large inside: bombs of bytes, of names, of depth and of time.

use std::fs;
use std::time::{Duration, Instant};

use pinfold_images::{ImportError, Limits, Refusal};

use super::archive::{Archive, Entry, gzip, zstd};
use super::stage::{Stage, names_in, unpacker};

fn zeros(bytes: usize) -> Vec<u8> {
    Archive::new().entry(&Entry { path: b"zeros", contents: &vec![0; bytes], ..Entry::default() }).done()
}

#[test]
fn a_small_archive_becomes_huge() {
    let limits = Limits { ratio_begins_bytes: 1 << 20, ..Limits::default() };
    let stage = Stage::limited(limits);
    for bomb in [gzip(&zeros(8 << 20)), zstd(&zeros(8 << 20))] {
        assert_eq!(stage.refused(&bomb), Refusal::Bomb { most: 200 });
    }
}

#[test]
fn a_bomb_hides_behind_the_end_of_the_archive() {
    let stage = Stage::limited(Limits { ratio_begins_bytes: 1 << 20, ..Limits::default() });
    let mut archive = Archive::new().file("x", "").done();
    archive.extend(vec![0; 8 << 20]);

    assert_eq!(stage.refused(&gzip(&archive)), Refusal::Bomb { most: 200 });
}

#[test]
fn many_files_are_too_much_together() {
    let stage = Stage::limited(Limits { total_bytes: 100_000, ..Limits::default() });
    let contents = [b'x'; 30_000];
    let archive = (b'a'..b'g').fold(Archive::new(), |archive, name| {
        archive.entry(&Entry { path: &[name], contents: &contents, ..Entry::default() })
    });

    assert_eq!(stage.refused(&archive.done()), Refusal::TooManyBytes { most: 100_000 });
}

#[test]
fn a_file_says_that_it_has_a_terabyte() {
    let stage = Stage::new();
    let size = (8 << 30) - 1;
    let largest = Entry { path: b"x", size: Some(size), ..Entry::default() };
    let stage_of_less = Stage::limited(Limits { file_bytes: 1 << 20, ..Limits::default() });

    // What is declared and not there is cut short; what is declared beyond the limit is not even begun.
    assert_eq!(stage.refused(&Archive::new().entry(&largest).done()), Refusal::CutShort);
    let refusal = stage_of_less.refused(&Archive::new().entry(&largest).done());

    assert_eq!(refusal, Refusal::FileTooBig { path: "x".to_owned(), bytes: size, most: 1 << 20 });
}

#[test]
fn a_sparse_file_has_a_terabyte_of_holes() {
    let stage = Stage::new();
    let by_gnu = Archive::new().kind("x", b'S').done();
    let records: [(&str, &[u8]); 2] = [("GNU.sparse.major", b"1"), ("GNU.sparse.realsize", b"1099511627776")];
    let by_pax = Archive::new().pax(&records).file("x", "").done();

    for archive in [by_gnu, by_pax] {
        assert_eq!(stage.refused(&archive), Refusal::Sparse { path: "x".to_owned() });
    }
}

#[test]
fn a_directory_has_a_sparse_terabyte() {
    let stage = Stage::new();
    let source = tempfile::tempdir().unwrap();
    fs::File::create(source.path().join("x")).unwrap().set_len(1 << 40).unwrap();

    let error = stage.images.import(source.path(), "image").unwrap_err();

    let ImportError::Refused { source: refusal, .. } = error else { panic!("{error}") };
    assert!(matches!(refusal, Refusal::FileTooBig { bytes, .. } if bytes == 1 << 40), "{refusal}");
}

#[test]
fn there_are_more_entries_than_anyone_needs() {
    let stage = Stage::limited(Limits { entries: 1_000, ..Limits::default() });
    let archive = (0..1_001).fold(Archive::new(), |archive, number| archive.file(&number.to_string(), ""));
    // Each name brings many directories with it.
    let deep = |number: i32| format!("{number}{}", "/d".repeat(48));
    let deep = (0..21).fold(Archive::new(), |archive, number| archive.file(&deep(number), ""));

    for archive in [archive, deep] {
        let refusal = stage.refused(&archive.done());
        assert_eq!(refusal, Refusal::TooManyEntries { most: 1_000 });
    }
}

#[test]
fn a_path_is_too_deep_or_too_long() {
    let stage = Stage::new();
    let named = |path: String| Archive::new().pax(&[("path", path.as_bytes())]).file("x", "").done();

    let deep = stage.refused(&named("d/".repeat(300)));
    let long = stage.refused(&named(format!("{}x", "d".repeat(99) + "/").repeat(50)));
    let part = stage.refused(&named("n".repeat(256)));
    let extension = stage.refused(&Archive::new().extension(b'L', &vec![b'n'; 2 << 20]).file("x", "").done());

    assert!(matches!(deep, Refusal::TooDeep { depth: 300, most: 256, .. }), "{deep}");
    assert!(matches!(long, Refusal::NameTooLong { most: 4095, .. }), "{long}");
    assert!(matches!(part, Refusal::NameTooLong { bytes: 256, most: 255, .. }), "{part}");
    assert!(matches!(extension, Refusal::BadHeader { .. }), "{extension}");
}

#[test]
fn the_deepest_and_longest_paths_come_and_go() {
    let stage = Stage::new();
    let deepest = format!("{}/x", vec!["d".repeat(15); 255].join("/"));

    let archive = Archive::new().pax(&[("path", deepest.as_bytes())]).file("x", "deep").done();
    stage.import(&archive, "deep").unwrap();
    stage.images.remove("deep", |_| vec![]).unwrap();

    assert_eq!(stage.layer_count(), 0);
    stage.assert_nothing_unfinished();
}

#[test]
fn an_unpacker_without_enough_memory_is_only_an_error() {
    let stage = Stage::limited(Limits { memory_bytes: 1 << 20, ..Limits::default() });

    let error = stage.import(&zeros(10), "image").unwrap_err();

    assert!(matches!(error, ImportError::UnpackerDied { .. } | ImportError::Refused { .. }), "{error}");
    stage.assert_nothing_unfinished();
}

#[test]
fn an_unpacker_that_never_answers_is_killed_at_its_deadline() {
    let stage = Stage::new();
    let mut idle = unpacker();
    idle.program = "/bin/sh".into();
    idle.arguments = vec!["-c".into(), "exec sleep 1000".into()];
    let images = pinfold_images::Images::open(stage.path("images"), idle).unwrap();
    let images = images.with_limits(Limits { seconds: 1, ..Limits::default() });
    let began = Instant::now();

    // Fits into the pipe, and does not.
    for bytes in [0, 1 << 20] {
        fs::write(stage.path("source"), zeros(bytes)).unwrap();
        let error = images.import(&stage.path("source"), "image").unwrap_err();
        assert!(matches!(error, ImportError::TooSlow { seconds: 1, .. }), "{error}");
    }

    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(names_in(&stage.path("images/unfinished")), [""; 0]);
}
