//! Stacked layers in a real overlayfs mount: whiteouts and opaque directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::archive::{Archive, gzip};
use super::bundles::oci;
use super::fixture::Fixture;

/// The paths that `find` lists in an overlay of these layers, mounted in a temporary mount namespace.
pub(crate) fn seen_in_overlay(layers: &[PathBuf], user: Option<u32>) -> Vec<String> {
    let merged = tempfile::tempdir().unwrap();
    let list: Vec<&str> = layers.iter().map(|layer| layer.to_str().unwrap()).collect();
    let script = "mount -t overlay overlay -o userxattr,lowerdir=$1 $2 && cd $2 && find . -mindepth 1";
    let mut command = match user {
        None => Command::new("unshare"),
        Some(user) => {
            std::os::unix::fs::chown(merged.path(), Some(user), Some(user)).unwrap();
            let mut command = Command::new("setpriv");
            command.args([
                "--clear-groups",
                &format!("--reuid={user}"),
                &format!("--regid={user}"),
                "unshare",
                "-Ur",
            ]);
            command
        }
    };
    // overlayfs without an upper directory needs two lower ones.
    let bottom = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(bottom.path(), user, user).unwrap();
    let lower = format!("{}:{}", list.join(":"), bottom.path().display());
    command.args(["-m", "sh", "-c", script, "sh", &lower]).arg(merged.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let ours = |path: &str| !MADE.contains(&path);
    let mut paths: Vec<String> =
        text.lines().map(|line| line.trim_start_matches("./").to_owned()).filter(|path| ours(path)).collect();
    paths.sort();
    paths
}

/// The required directories of every root.
const MADE: [&str; 8] = ["dev", "etc", "proc", "run", "sys", "tmp", "usr", "workspace"];

pub(crate) fn changing_layers() -> Vec<Vec<u8>> {
    let below = Archive::new()
        .file("gone", "")
        .file("kept", "")
        .file("emptied/old", "")
        .file("replaced/old", "")
        .file("replaced_early/old", "")
        .file("removed/old", "")
        .file("etc/old", "");
    let above = Archive::new()
        .file(".wh.gone", "")
        .directory("emptied")
        .file("emptied/.wh..wh..opq", "")
        .file("emptied/new", "")
        // The whiteout comes after the replacement, and in the next pair before it.
        .file("replaced/new", "")
        .file(".wh.replaced", "")
        .file(".wh.replaced_early", "")
        .file("replaced_early/new", "")
        .file(".wh.removed", "")
        .file(".wh.etc", "")
        .file(".wh..wh.plnk/notes", "");
    vec![below.done(), above.done()]
}

pub(crate) const CHANGED: [&str; 7] =
    ["emptied", "emptied/new", "kept", "replaced", "replaced/new", "replaced_early", "replaced_early/new"];

#[test]
fn whiteouts_hide_files_of_lower_layers() {
    let fixture = Fixture::new();
    let image = fixture.import(&oci(&changing_layers(), gzip).tar(), "app").unwrap();

    let seen = seen_in_overlay(&fixture.images.layers(&image.id).unwrap(), None);

    assert_eq!(seen, CHANGED);
}

#[test]
fn layers_below_an_opaque_root_are_dropped() {
    let fixture = Fixture::new();
    let below = Archive::new().file("secret", "").done();
    let above = Archive::new().file(".wh..wh..opq", "").file("new", "").done();

    let image = fixture.import(&oci(&[below, above], gzip).tar(), "app").unwrap();

    let layers = fixture.images.layers(&image.id).unwrap();
    assert_eq!(seen_in_overlay(&layers, None), ["new"]);
    assert_eq!((layers.len(), fixture.layer_count()), (1, 1));
}

#[test]
fn a_file_that_replaces_its_whiteout_leaves_no_whiteout_in_the_layer() {
    let fixture = Fixture::new();
    let root = fixture.root_of(&Archive::new().file(".wh.x", "").file("x", "again").done());

    assert_eq!(fs::read_to_string(root.join("x")).unwrap(), "again");
    assert!(!Path::new(&root).join(".wh.x").exists());
}
