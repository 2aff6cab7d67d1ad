//! Imports that are killed at any moment: nothing of them is visible, and the next opening clears the rest away.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pinfold_images::Images;

use super::archive::{Archive, gzip};
use super::bundles::oci;
use super::stage::{Stage, names_in, unpacker};

const ROUNDS: u64 = 20;

fn bulky() -> Vec<u8> {
    let layer = |name: &str| {
        let file = |archive: Archive, number| archive.file(&format!("{name}/{number}"), &"x".repeat(4_000));
        (0..100).fold(Archive::new(), file).done()
    };
    oci(&[layer("one"), layer("two")], gzip).tar()
}

/// The unpacker of a killed import is killed by the kernel a moment later; until then its place is not rubbish.
fn open_until_clear(stage: &Stage) -> Images {
    let began = Instant::now();
    loop {
        let images = Images::open(stage.path("images"), unpacker()).unwrap();
        if names_in(&stage.path("images/unfinished")).is_empty() {
            return images;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "the rest of a killed import is not cleared away");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn an_import_killed_at_any_moment_leaves_no_trace() {
    let stage = Stage::new();
    fs::write(stage.path("source"), bulky()).unwrap();
    let import = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold-images"));
        command.arg("import").arg(stage.path("images")).arg(stage.path("source")).arg("app");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let began = Instant::now();
    assert!(import().wait().unwrap().success());
    let whole = began.elapsed();
    stage.images.remove("app", |_| vec![]).unwrap();

    let mut killed = 0;
    for round in 0..ROUNDS {
        let mut child = import();
        thread::sleep(whole * u32::try_from(round).unwrap() / u32::try_from(ROUNDS).unwrap());
        child.kill().unwrap();
        killed += u32::from(!child.wait().unwrap().success());

        let images = open_until_clear(&stage);
        for image in images.list().unwrap() {
            // It was complete before the kill, so all of it is there.
            let roots = images.layers(&image.id).unwrap();
            assert!(roots[0].join("two/99").is_file() && roots[1].join("one/99").is_file());
            images.remove("app", |_| vec![]).unwrap();
        }
        assert_eq!(stage.layer_count(), 0, "round {round}");
    }
    assert!(killed > 4, "only {killed} of {ROUNDS} were killed in time");
}

#[test]
fn the_rest_of_a_crash_between_layers_and_name_is_cleared_away() {
    let stage = Stage::new();
    fs::create_dir_all(stage.path("images/layers").join("0".repeat(64)).join("root/x")).unwrap();
    fs::create_dir_all(stage.path("images/unfinished/1-0")).unwrap();
    fs::create_dir_all(stage.path("images/unfinished/1-1/layer")).unwrap();
    fs::write(stage.path("images/unfinished/1-1/lock"), "").unwrap();

    stage.import(&Archive::new().file("x", "").done(), "app").unwrap();

    assert_eq!(stage.layer_count(), 1);
    stage.assert_nothing_unfinished();
}
