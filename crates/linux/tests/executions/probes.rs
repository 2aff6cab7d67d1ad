//! Probes of an image whose `true` is hostile: what it leaves behind belongs to no execution and ends with the probe.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use pinfold_lifecycle::{ProbeFailure, Probed, Spec};
use pinfold_linux::{FIRST_LAYER_ID, Layer};
use pinfold_provider::Provider;

use crate::sandbox::{Sandbox, until};

/// Few programs, with what they are linked to.
const FURNISH: &str = r#"for name in sh cat setsid sleep; do
    program=$(command -v $name)
    mkdir -p "$1/bin" && cp -L "$program" "$1/bin/" || exit
    for library in $(ldd "$program" | grep -o '/[^ ]*'); do
        cp -L --parents -t "$1" "$library" || exit
    done
done"#;

fn furnish(root: &Path, hostile: &str) {
    let furnished = Command::new("sh").args(["-c", FURNISH, "furnish"]).arg(root).status().unwrap();
    assert!(furnished.success());
    fs::write(root.join("bin/true"), format!("#!/bin/sh\n{hostile}\n")).unwrap();
    fs::set_permissions(root.join("bin/true"), fs::Permissions::from_mode(0o755)).unwrap();
    if rustix::process::geteuid().is_root() {
        give_to_layers(root);
    }
}

fn give_to_layers(path: &Path) {
    lchown(path, Some(FIRST_LAYER_ID), Some(FIRST_LAYER_ID)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give_to_layers(&entry.unwrap().path()));
    }
}

async fn sandbox_with(image: &Path) -> Sandbox {
    let first_id = rustix::process::geteuid().is_root().then_some(FIRST_LAYER_ID);
    let layer = Layer { path: image.to_owned(), first_id };
    let find = move |_: &str| Ok(vec![layer.clone()]);
    let spec = Spec { image: Some("hostile".into()), ..Spec::default() };
    Sandbox::of(&spec, |provider| provider.with_images(Arc::new(find))).await
}

/// Its probe, when it was seen that the program did what it is here for, and then that nothing is left.
async fn probe_with(hostile: &str) -> Probed {
    let image = tempfile::tempdir().unwrap();
    furnish(image.path(), hostile);
    let sandbox = sandbox_with(image.path()).await;

    let probed = sandbox.provider.probe(sandbox.body).await;

    assert_eq!(sandbox.says("cat /workspace/left").await, "something\n");
    let inside = || sandbox.provider.inside(sandbox.body);
    until("nothing is left", || async { inside().is_some_and(|inside| inside.is_empty()) }).await;
    probed
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_program_of_a_probe_leaves_behind_is_ended() {
    let probed = probe_with("setsid sleep 1000 & echo something > /workspace/left").await;

    assert_eq!(probed, Probed::Passed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_is_given_up_is_ended_with_all_that_it_began() {
    let probed = probe_with("setsid sleep 1000 & echo something > /workspace/left; sleep 1000").await;

    assert!(matches!(probed, Probed::Failed(ProbeFailure::Exec { .. })), "{probed:?}");
}
