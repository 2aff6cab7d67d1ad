//! Hostile file names, links and modes from a sandbox have no effect outside the destination.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};

use async_trait::async_trait;
use pinfold_provider::{ContentStream, InMemoryContent};

use super::super::sandbox_files::Entry;
use super::*;
use crate::backend::FileReader;

/// A mode with the setuid bit.
const MODE: u32 = 0o4751;

/// A sandbox that reports whatever entries the test gives it.
#[derive(Default)]
struct HostileSandbox {
    entries: BTreeMap<Vec<u8>, Vec<Entry>>,
}

fn info(kind: FileKind, target: Option<&str>) -> FileInfo {
    FileInfo { kind, mode: MODE, target: target.unwrap_or_default().as_bytes().to_vec() }
}

fn entry(name: &str, kind: FileKind, target: Option<&str>) -> Entry {
    Entry { name: name.as_bytes().to_vec(), info: info(kind, target) }
}

impl HostileSandbox {
    fn with(mut self, path: &str, entries: Vec<Entry>) -> Self {
        self.entries.insert(path.as_bytes().to_vec(), entries);
        self
    }
}

#[async_trait]
impl SandboxFiles for HostileSandbox {
    async fn stat(&self, path: &[u8]) -> anyhow::Result<FileInfo> {
        let kind = if self.entries.contains_key(path) { FileKind::Directory } else { FileKind::File };
        Ok(info(kind, None))
    }

    async fn list(&self, path: &[u8]) -> anyhow::Result<Vec<Entry>> {
        Ok(self.entries.get(path).cloned().unwrap_or_default())
    }

    async fn read(&self, _path: &[u8]) -> anyhow::Result<FileReader> {
        Ok(FileReader { mode: Some(MODE), chunks: Box::new(InMemoryContent::new(b"evil".to_vec())) })
    }

    async fn write(&self, _: &[u8], _: Option<u32>, _: &mut dyn ContentStream) -> anyhow::Result<u64> {
        bail!("the hostile sandbox accepts no writes")
    }

    async fn make_directory(&self, _: &[u8], _: Option<u32>) -> anyhow::Result<()> {
        bail!("the hostile sandbox accepts no writes")
    }

    async fn make_link(&self, _: &[u8], _: &[u8]) -> anyhow::Result<()> {
        bail!("the hostile sandbox accepts no writes")
    }
}

/// A destination directory, and a sibling directory that must stay empty.
struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("to")).unwrap();
        fs::create_dir(directory.path().join("beside")).unwrap();
        Self { directory }
    }

    fn to(&self) -> std::path::PathBuf {
        self.directory.path().join("to")
    }

    async fn copy(&self, hostile: &HostileSandbox) -> anyhow::Result<CopySummary> {
        to_path(hostile, b"/d", &self.to()).await
    }

    fn is_untouched(&self) -> bool {
        let names = |path: &Path| fs::read_dir(path).unwrap().count();
        names(&self.directory.path().join("beside")) == 0 && names(self.directory.path()) == 2
    }
}

#[tokio::test]
async fn file_name_that_leaves_the_destination_is_refused() {
    for name in ["..", ".", "", "../beside/x", "/etc/x", "a/b", "a/../../beside/x"] {
        let fixture = Fixture::new();
        let hostile = HostileSandbox::default().with("/d", vec![entry(name, FileKind::File, None)]);

        let summary = fixture.copy(&hostile).await;

        assert!(summary.unwrap_err().to_string().contains("leads outside the destination"), "{name}");
        assert!(fixture.is_untouched(), "{name}");
    }
}

#[tokio::test]
async fn symbolic_link_in_the_destination_is_not_followed() {
    let fixture = Fixture::new();
    let link = entry("x", FileKind::Link, Some("../../beside"));
    let directory = entry("x", FileKind::Directory, None);
    // The same name twice: entries are handled last to first.
    let hostile = HostileSandbox::default()
        .with("/d", vec![directory.clone(), link])
        .with("/d/x", vec![entry("file", FileKind::File, None)]);

    assert!(fixture.copy(&hostile).await.is_err());
    assert!(fixture.is_untouched());

    let fixture = Fixture::new();
    fs::create_dir(fixture.to().join("d")).unwrap();
    symlink("../../beside", fixture.to().join("d/x")).unwrap();
    let hostile = HostileSandbox::default()
        .with("/d", vec![directory])
        .with("/d/x", vec![entry("file", FileKind::File, None)]);

    assert!(fixture.copy(&hostile).await.is_err());
    assert!(fixture.is_untouched());
}

#[tokio::test]
async fn a_file_replaces_a_link_instead_of_writing_through_it() {
    let fixture = Fixture::new();
    fs::write(fixture.directory.path().join("beside/kept"), "kept").unwrap();
    fs::create_dir(fixture.to().join("d")).unwrap();
    symlink("../../beside/kept", fixture.to().join("d/file")).unwrap();
    let hostile = HostileSandbox::default().with("/d", vec![entry("file", FileKind::File, None)]);

    fixture.copy(&hostile).await.unwrap();

    assert_eq!(fs::read(fixture.directory.path().join("beside/kept")).unwrap(), b"kept");
    assert_eq!(fs::read(fixture.to().join("d/file")).unwrap(), b"evil");
}

#[tokio::test]
async fn permission_bits_are_copied_and_setuid_is_dropped() {
    let fixture = Fixture::new();
    let hostile = HostileSandbox::default().with(
        "/d",
        vec![
            entry("file", FileKind::File, None),
            entry("inner", FileKind::Directory, None),
            entry("link", FileKind::Link, Some("file")),
            entry("pipe", FileKind::Pipe, None),
        ],
    );

    let summary = fixture.copy(&hostile).await.unwrap();

    let mode =
        |name: &str| fs::metadata(fixture.to().join("d").join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("file"), mode("inner"), mode("")), (0o751, 0o751, 0o751));
    assert_eq!(fs::read_link(fixture.to().join("d/link")).unwrap(), Path::new("file"));
    assert_eq!((summary.files, summary.directories, summary.links, summary.bytes), (1, 2, 1, 4));
    assert_eq!(summary.left_out, ["/d/pipe"]);
}

#[tokio::test]
async fn local_device_is_not_replaced() {
    let refused = to_path(&HostileSandbox::default(), b"/file", Path::new("/dev/null")).await;

    assert!(refused.unwrap_err().to_string().contains("neither a file nor a directory"));
}
