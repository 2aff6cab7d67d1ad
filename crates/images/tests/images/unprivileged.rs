//! Imports as an unprivileged user, with a single uid and no capabilities.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use pinfold_test_support::{UNPRIVILEGED_UID, UnprivilegedCopies};

use super::archive::{Archive, Entry, gzip};
use super::bundles::oci;
use super::fixture::names_in;
use super::overlays::{CHANGED, changing_layers, seen_in_overlay};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pinfold-images");

struct UserFixture {
    copies: UnprivilegedCopies,
}

impl UserFixture {
    fn new() -> Self {
        Self { copies: UnprivilegedCopies::of(&[Path::new(PROGRAM)]).unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.copies.own_directory().join(name)
    }

    fn import(&self, bytes: &[u8], name: &str) -> Output {
        fs::write(self.path("source"), bytes).unwrap();
        let mut command = self.copies.command(Path::new(PROGRAM));
        command.arg("import").arg(self.path("images")).arg(self.path("source")).arg(name);
        command.output().unwrap()
    }

    fn layers(&self) -> Vec<PathBuf> {
        let layers = self.path("images/layers");
        names_in(&layers).iter().map(|name| layers.join(name).join("root")).collect()
    }
}

#[test]
fn an_unprivileged_import_owns_every_file() {
    let fixture = UserFixture::new();
    let unreadable = Entry { path: b"unreadable", kind: b'5', mode: 0o000, owner: 7, ..Entry::default() };
    let archive = Archive::new().entry(&unreadable).file("unreadable/inside", "inside").file("file", "file");

    let output = fixture.import(&archive.done(), "app");

    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let root = fixture.layers().remove(0);
    assert_eq!(fs::read_to_string(root.join("unreadable/inside")).unwrap(), "inside");
    for name in ["file", "unreadable", "unreadable/inside", "tmp"] {
        assert_eq!(fs::metadata(root.join(name)).unwrap().uid(), UNPRIVILEGED_UID, "{name}");
    }
}

#[test]
fn a_refused_unprivileged_import_leaves_nothing_even_below_unreadable_directories() {
    let fixture = UserFixture::new();
    let unreadable = Entry { path: b"unreadable", kind: b'5', mode: 0o000, ..Entry::default() };
    let archive =
        Archive::new().entry(&unreadable).file("unreadable/deep/inside", "").file("../canary", "dead");

    let output = fixture.import(&archive.done(), "app");

    assert!(String::from_utf8_lossy(&output.stderr).contains("leads out of the image"));
    assert_eq!(names_in(&fixture.path("images/unfinished")), [""; 0]);
    assert!(!fixture.path("canary").exists());
}

#[test]
fn an_unprivileged_overlay_shows_the_same_files_as_a_privileged_one() {
    let fixture = UserFixture::new();
    let output = fixture.import(&oci(&changing_layers(), gzip).tar(), "app");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut layers = fixture.layers();
    // The upper layer has a whiteout instead of a file.
    layers.sort_by_key(|root| fs::symlink_metadata(root.join("gone")).unwrap().is_file());

    assert_eq!(seen_in_overlay(&layers, Some(UNPRIVILEGED_UID)), CHANGED);
}
