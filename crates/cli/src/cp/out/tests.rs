//! What hostile code inside may tell, and what comes of it here.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};

use async_trait::async_trait;
use pinfold_provider::{Pieces, Whole};

use super::super::inside::Entry;
use super::*;
use crate::plane::Held;

/// With more than rights.
const MODE: u32 = 0o4751;

/// A sandbox that tells whatever it was told to tell.
#[derive(Default)]
struct Liar {
    entries: BTreeMap<Vec<u8>, Vec<Entry>>,
}

fn told(kind: FileKind, target: Option<&str>) -> Told {
    Told { kind, mode: MODE, target: target.unwrap_or_default().as_bytes().to_vec() }
}

fn entry(name: &str, kind: FileKind, target: Option<&str>) -> Entry {
    Entry { name: name.as_bytes().to_vec(), told: told(kind, target) }
}

impl Liar {
    fn with(mut self, path: &str, entries: Vec<Entry>) -> Self {
        self.entries.insert(path.as_bytes().to_vec(), entries);
        self
    }
}

#[async_trait]
impl Inside for Liar {
    async fn stat(&self, path: &[u8]) -> anyhow::Result<Told> {
        let kind = if self.entries.contains_key(path) { FileKind::Directory } else { FileKind::File };
        Ok(told(kind, None))
    }

    async fn list(&self, path: &[u8]) -> anyhow::Result<Vec<Entry>> {
        Ok(self.entries.get(path).cloned().unwrap_or_default())
    }

    async fn read(&self, _path: &[u8]) -> anyhow::Result<Held> {
        Ok(Held { mode: Some(MODE), pieces: Box::new(Whole::new(b"evil".to_vec())) })
    }

    async fn write(&self, _: &[u8], _: Option<u32>, _: &mut dyn Pieces) -> anyhow::Result<u64> {
        bail!("nothing goes in")
    }

    async fn make_directory(&self, _: &[u8], _: Option<u32>) -> anyhow::Result<()> {
        bail!("nothing goes in")
    }

    async fn make_link(&self, _: &[u8], _: &[u8]) -> anyhow::Result<()> {
        bail!("nothing goes in")
    }
}

/// A directory for copies, beside one that must stay as it is.
struct Scene {
    directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("to")).unwrap();
        fs::create_dir(directory.path().join("beside")).unwrap();
        Self { directory }
    }

    fn to(&self) -> std::path::PathBuf {
        self.directory.path().join("to")
    }

    async fn copy(&self, liar: &Liar) -> anyhow::Result<Copied> {
        to_path(liar, b"/d", &self.to()).await
    }

    fn is_untouched(&self) -> bool {
        let names = |path: &Path| fs::read_dir(path).unwrap().count();
        names(&self.directory.path().join("beside")) == 0 && names(self.directory.path()) == 2
    }
}

#[tokio::test]
async fn names_that_would_lead_elsewhere_are_refused() {
    for name in ["..", ".", "", "../beside/x", "/etc/x", "a/b", "a/../../beside/x"] {
        let scene = Scene::new();
        let liar = Liar::default().with("/d", vec![entry(name, FileKind::File, None)]);

        let copied = scene.copy(&liar).await;

        assert!(copied.unwrap_err().to_string().contains("would lead elsewhere"), "{name}");
        assert!(scene.is_untouched(), "{name}");
    }
}

#[tokio::test]
async fn no_link_is_followed_whoever_made_it() {
    let scene = Scene::new();
    let link = entry("x", FileKind::Link, Some("../../beside"));
    let directory = entry("x", FileKind::Directory, None);
    // The same name twice: what comes last is done first.
    let liar = Liar::default()
        .with("/d", vec![directory.clone(), link])
        .with("/d/x", vec![entry("file", FileKind::File, None)]);

    assert!(scene.copy(&liar).await.is_err());
    assert!(scene.is_untouched());

    let scene = Scene::new();
    fs::create_dir(scene.to().join("d")).unwrap();
    symlink("../../beside", scene.to().join("d/x")).unwrap();
    let liar =
        Liar::default().with("/d", vec![directory]).with("/d/x", vec![entry("file", FileKind::File, None)]);

    assert!(scene.copy(&liar).await.is_err());
    assert!(scene.is_untouched());
}

#[tokio::test]
async fn a_file_replaces_a_link_instead_of_writing_through_it() {
    let scene = Scene::new();
    fs::write(scene.directory.path().join("beside/kept"), "kept").unwrap();
    fs::create_dir(scene.to().join("d")).unwrap();
    symlink("../../beside/kept", scene.to().join("d/file")).unwrap();
    let liar = Liar::default().with("/d", vec![entry("file", FileKind::File, None)]);

    scene.copy(&liar).await.unwrap();

    assert_eq!(fs::read(scene.directory.path().join("beside/kept")).unwrap(), b"kept");
    assert_eq!(fs::read(scene.to().join("d/file")).unwrap(), b"evil");
}

#[tokio::test]
async fn rights_are_kept_and_nothing_beyond_them() {
    let scene = Scene::new();
    let liar = Liar::default().with(
        "/d",
        vec![
            entry("file", FileKind::File, None),
            entry("inner", FileKind::Directory, None),
            entry("link", FileKind::Link, Some("file")),
            entry("pipe", FileKind::Pipe, None),
        ],
    );

    let copied = scene.copy(&liar).await.unwrap();

    let mode =
        |name: &str| fs::metadata(scene.to().join("d").join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("file"), mode("inner"), mode("")), (0o751, 0o751, 0o751));
    assert_eq!(fs::read_link(scene.to().join("d/link")).unwrap(), Path::new("file"));
    assert_eq!((copied.files, copied.directories, copied.links, copied.bytes), (1, 2, 1, 4));
    assert_eq!(copied.left_out, ["/d/pipe"]);
}

#[tokio::test]
async fn a_device_here_is_not_replaced() {
    let refused = to_path(&Liar::default(), b"/file", Path::new("/dev/null")).await;

    assert!(refused.unwrap_err().to_string().contains("neither a file nor a directory"));
}
