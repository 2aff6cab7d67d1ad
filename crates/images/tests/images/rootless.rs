//! The same as an ordinary user, who has one id and no power over others.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::archive::{Archive, Entry, gzip};
use super::bundles::oci;
use super::overlays::{CHANGED, changing_layers, seen_in_overlay};
use super::stage::names_in;

const SOMEBODY: u32 = 54_321;

struct Ground {
    directory: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // By another process: one that is forked here meanwhile would have it open, and then nobody could run it.
        let (from, to) = (env!("CARGO_BIN_EXE_pinfold-images"), directory.path().join("program"));
        assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
        fs::create_dir(directory.path().join("images")).unwrap();
        chown(directory.path().join("images"), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn import(&self, bytes: &[u8], name: &str) -> Output {
        fs::write(self.path("source"), bytes).unwrap();
        let mut command = Command::new(self.path("program"));
        command.arg("import").arg(self.path("images")).arg(self.path("source")).arg(name);
        command.uid(SOMEBODY).gid(SOMEBODY).stdin(Stdio::null()).output().unwrap()
    }

    fn layers(&self) -> Vec<PathBuf> {
        let layers = self.path("images/layers");
        names_in(&layers).iter().map(|name| layers.join(name).join("root")).collect()
    }
}

#[test]
fn an_ordinary_user_imports_and_owns_everything() {
    let ground = Ground::new();
    let shut = Entry { path: b"shut", kind: b'5', mode: 0o000, owner: 7, ..Entry::default() };
    let archive = Archive::new().entry(&shut).file("shut/inside", "inside").file("file", "file");

    let output = ground.import(&archive.done(), "app");

    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let root = ground.layers().remove(0);
    assert_eq!(fs::read_to_string(root.join("shut/inside")).unwrap(), "inside");
    for name in ["file", "shut", "shut/inside", "tmp"] {
        assert_eq!(fs::metadata(root.join(name)).unwrap().uid(), SOMEBODY, "{name}");
    }
}

#[test]
fn a_refused_import_of_an_ordinary_user_leaves_nothing_even_behind_shut_directories() {
    let ground = Ground::new();
    let shut = Entry { path: b"shut", kind: b'5', mode: 0o000, ..Entry::default() };
    let archive = Archive::new().entry(&shut).file("shut/deep/inside", "").file("../canary", "dead");

    let output = ground.import(&archive.done(), "app");

    assert!(String::from_utf8_lossy(&output.stderr).contains("leads out of the image"));
    assert_eq!(names_in(&ground.path("images/unfinished")), [""; 0]);
    assert!(!ground.path("canary").exists());
}

#[test]
fn an_overlay_of_an_ordinary_user_shows_the_same_as_one_of_root() {
    let ground = Ground::new();
    let output = ground.import(&oci(&changing_layers(), gzip).tar(), "app");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut layers = ground.layers();
    // The upper one has a mark instead of a file.
    layers.sort_by_key(|root| fs::symlink_metadata(root.join("gone")).unwrap().is_file());

    assert_eq!(seen_in_overlay(&layers, Some(SOMEBODY)), CHANGED);
}
