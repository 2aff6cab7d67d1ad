//! Probes of an image whose `true` is hostile: its leftover processes belong to no execution and are killed with the
//! probe.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use pinfold_lifecycle::{ProbeFailure, ProbeResult, Spec};
use pinfold_linux::{FIRST_LAYER_ID, RootLayer};
use pinfold_provider::Provider;
use pinfold_test_support::until_async;

use crate::sandbox::Sandbox;

/// A few programs with their libraries.
const COPY_PROGRAMS: &str = r#"for name in sh cat setsid sleep; do
    program=$(command -v $name)
    mkdir -p "$1/bin" && cp -L "$program" "$1/bin/" || exit
    for library in $(ldd "$program" | grep -o '/[^ ]*'); do
        cp -L --parents -t "$1" "$library" || exit
    done
done"#;

fn build_image(root: &Path, hostile: &str) {
    let copied = Command::new("sh").args(["-c", COPY_PROGRAMS, "build_image"]).arg(root).status().unwrap();
    assert!(copied.success());
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
    let layer = RootLayer { path: image.to_owned(), first_id };
    let find = move |_: &str| Ok(vec![layer.clone()]);
    let spec = Spec { image: Some("hostile".into()), ..Spec::default() };
    Sandbox::of(&spec, |provider| provider.with_images(Arc::new(find))).await
}

/// Probes an image with this hostile `true`, after checking that it ran and that no process is left.
async fn probe_with(hostile: &str) -> ProbeResult {
    let image = tempfile::tempdir().unwrap();
    build_image(image.path(), hostile);
    let sandbox = sandbox_with(image.path()).await;

    let probed = sandbox.provider.probe(sandbox.instance).await;

    assert_eq!(sandbox.says("cat /workspace/left").await, "something\n");
    let inspect = sandbox.provider.inspect();
    let inside = || inspect.processes(sandbox.instance);
    until_async("nothing is left", || async { inside().await.is_ok_and(|inside| inside.is_empty()) }).await;
    probed
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_left_behind_by_a_probe_are_killed() {
    let probed = probe_with("setsid sleep 1000 & echo something > /workspace/left").await;

    assert_eq!(probed, ProbeResult::Passed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timed_out_probe_is_killed_with_all_its_processes() {
    let probed = probe_with("setsid sleep 1000 & echo something > /workspace/left; sleep 1000").await;

    assert!(matches!(probed, ProbeResult::Failed(ProbeFailure::Exec { .. })), "{probed:?}");
}
