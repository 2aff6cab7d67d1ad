//! Killed imports: nothing of them is visible, and the next open deletes their leftovers.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pinfold_images::Images;

use super::archive::{Archive, gzip};
use super::bundles::oci;
use super::fixture::{Fixture, names_in, unpacker};

const ROUNDS: u64 = 20;

fn bulky() -> Vec<u8> {
    let layer = |name: &str| {
        let file = |archive: Archive, number| archive.file(&format!("{name}/{number}"), &"x".repeat(4_000));
        (0..100).fold(Archive::new(), file).done()
    };
    oci(&[layer("one"), layer("two")], gzip).tar()
}

/// The kernel kills the unpacker of a killed import a moment later. Until then its staging directory stays locked.
fn open_until_clear(fixture: &Fixture) -> Images {
    let began = Instant::now();
    loop {
        let images = Images::open(fixture.path("images"), unpacker()).unwrap();
        if names_in(&fixture.path("images/unfinished")).is_empty() {
            return images;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "leftovers of a killed import are not deleted");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn an_import_killed_at_any_moment_leaves_no_trace() {
    let fixture = Fixture::new();
    fs::write(fixture.path("source"), bulky()).unwrap();
    let import = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold-images"));
        command.arg("import").arg(fixture.path("images")).arg(fixture.path("source")).arg("app");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let began = Instant::now();
    assert!(import().wait().unwrap().success());
    let whole = began.elapsed();
    fixture.images.remove("app", |_| vec![]).unwrap();

    let mut killed = 0;
    for round in 0..ROUNDS {
        let mut child = import();
        thread::sleep(whole * u32::try_from(round).unwrap() / u32::try_from(ROUNDS).unwrap());
        child.kill().unwrap();
        killed += u32::from(!child.wait().unwrap().success());

        let images = open_until_clear(&fixture);
        for image in images.list().unwrap() {
            // The import completed before the kill, so all layers must be present.
            let roots = images.layers(&image.id).unwrap();
            assert!(roots[0].join("two/99").is_file() && roots[1].join("one/99").is_file());
            images.remove("app", |_| vec![]).unwrap();
        }
        assert_eq!(fixture.layer_count(), 0, "round {round}");
    }
    assert!(killed > 4, "only {killed} of {ROUNDS} were killed in time");
}

#[test]
fn leftovers_of_a_crash_between_layers_and_name_are_deleted() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("images/layers").join("0".repeat(64)).join("root/x")).unwrap();
    fs::create_dir_all(fixture.path("images/unfinished/1-0")).unwrap();
    fs::create_dir_all(fixture.path("images/unfinished/1-1/layer")).unwrap();
    fs::write(fixture.path("images/unfinished/1-1/lock"), "").unwrap();

    fixture.import(&Archive::new().file("x", "").done(), "app").unwrap();

    assert_eq!(fixture.layer_count(), 1);
    fixture.assert_nothing_unfinished();
}
