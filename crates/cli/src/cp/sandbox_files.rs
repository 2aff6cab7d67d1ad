//! File operations in a sandbox that a copy needs.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::{FileEntry, FileKind};
use pinfold_provider::ContentStream;

use crate::backend::{Backend, FileReader};
use crate::find::find;

/// Files of a sandbox. Names and kinds come from inside it and are not trusted.
#[async_trait]
pub(super) trait SandboxFiles: Send + Sync {
    async fn stat(&self, path: &[u8]) -> anyhow::Result<FileInfo>;
    async fn list(&self, path: &[u8]) -> anyhow::Result<Vec<Entry>>;
    async fn read(&self, path: &[u8]) -> anyhow::Result<FileReader>;
    async fn write(
        &self,
        path: &[u8],
        mode: Option<u32>,
        content: &mut dyn ContentStream,
    ) -> anyhow::Result<u64>;
    /// Creates a directory. An existing directory is not an error.
    async fn make_directory(&self, path: &[u8], mode: Option<u32>) -> anyhow::Result<()>;
    /// Creates a symbolic link, replacing anything but a directory.
    async fn make_link(&self, path: &[u8], target: &[u8]) -> anyhow::Result<()>;
}

/// Kind, mode and link target of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileInfo {
    pub(super) kind: FileKind,
    pub(super) mode: u32,
    /// Target of a symbolic link, else empty.
    pub(super) target: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) info: FileInfo,
}

/// Maximum number of entries of one directory.
const MAX_ENTRIES: usize = 100_000;
/// Relative paths start here.
const WORKSPACE: &[u8] = b"/workspace";

/// A running sandbox, reached through the backend.
pub(super) struct LiveSandbox<'a> {
    backend: &'a Backend,
    id: String,
}

impl<'a> LiveSandbox<'a> {
    pub(super) async fn of(backend: &'a Backend, given: &str) -> anyhow::Result<Self> {
        Ok(Self { backend, id: find(backend, given).await? })
    }
}

#[async_trait]
impl SandboxFiles for LiveSandbox<'_> {
    async fn stat(&self, path: &[u8]) -> anyhow::Result<FileInfo> {
        info(&self.backend.stat_file(&self.id, &absolute(path)).await?)
    }

    async fn list(&self, path: &[u8]) -> anyhow::Result<Vec<Entry>> {
        let listing = self.backend.list_files(&self.id, &absolute(path), MAX_ENTRIES).await?;
        anyhow::ensure!(
            !listing.more,
            "a directory has more than {MAX_ENTRIES} entries; copy it as an archive instead"
        );
        let entry = |it: &FileEntry| {
            let name = bytes(Some(&it.name), it.name_base64.as_ref())?;
            Ok(Entry { name, info: info(it)? })
        };
        listing.entries.iter().map(entry).collect()
    }

    async fn read(&self, path: &[u8]) -> anyhow::Result<FileReader> {
        Ok(self.backend.read_file(&self.id, &absolute(path)).await?)
    }

    async fn write(
        &self,
        path: &[u8],
        mode: Option<u32>,
        content: &mut dyn ContentStream,
    ) -> anyhow::Result<u64> {
        self.backend.write_file(&self.id, &absolute(path), mode, content).await
    }

    async fn make_directory(&self, path: &[u8], mode: Option<u32>) -> anyhow::Result<()> {
        self.backend.make_directory(&self.id, &absolute(path), mode).await?;
        Ok(())
    }

    async fn make_link(&self, path: &[u8], target: &[u8]) -> anyhow::Result<()> {
        self.backend.make_link(&self.id, &absolute(path), target).await?;
        Ok(())
    }
}

fn absolute(path: &[u8]) -> Vec<u8> {
    if path.first() == Some(&b'/') { path.to_vec() } else { join(WORKSPACE, path) }
}

fn info(it: &FileEntry) -> anyhow::Result<FileInfo> {
    let target = bytes(it.target.as_ref(), it.target_base64.as_ref())?;
    Ok(FileInfo { kind: it.kind, mode: it.mode, target })
}

/// Names that are not UTF-8 come as base64.
fn bytes(text: Option<&String>, base64: Option<&String>) -> anyhow::Result<Vec<u8>> {
    match base64 {
        Some(base64) => Ok(STANDARD.decode(base64)?),
        None => Ok(text.map(|text| text.as_bytes().to_vec()).unwrap_or_default()),
    }
}

/// Whether `name` is exactly one path component.
pub(super) fn is_path_component(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
}

/// Appends a name to a directory's path.
pub(super) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = directory.to_vec();
    if !path.is_empty() && path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend(name);
    path
}

/// The last component of a path. None: the path is a root, or ends in `.` or `..`.
pub(super) fn file_name(path: &[u8]) -> Option<&[u8]> {
    let end = path.iter().rposition(|byte| *byte != b'/')?;
    let name = path[..=end].rsplit(|byte| *byte == b'/').next()?;
    is_path_component(name).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_component_excludes_slashes_dots_and_nul() {
        assert!(is_path_component(b"a") && is_path_component(b"...") && is_path_component(b"\xff"));
        for wrong in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0"] {
            assert!(!is_path_component(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn file_name_ignores_trailing_slashes() {
        assert_eq!(file_name(b"/a/b//"), Some(&b"b"[..]));
        assert_eq!(file_name(b"a"), Some(&b"a"[..]));
        assert_eq!(
            (file_name(b"/"), file_name(b"a/.."), file_name(b"."), file_name(b"")),
            (None, None, None, None)
        );
    }
}
