//! Files in a sandbox, as a copy needs them.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::{FileEntry, FileKind};
use pinfold_provider::Pieces;

use crate::find::find;
use crate::plane::{Held, Plane};

/// What is told by it is not to be trusted: whoever has taken over a sandbox may have told it.
#[async_trait]
pub(super) trait Inside: Send + Sync {
    async fn stat(&self, path: &[u8]) -> anyhow::Result<Told>;
    async fn list(&self, path: &[u8]) -> anyhow::Result<Vec<Entry>>;
    async fn read(&self, path: &[u8]) -> anyhow::Result<Held>;
    async fn write(&self, path: &[u8], mode: Option<u32>, content: &mut dyn Pieces) -> anyhow::Result<u64>;
    /// One that is there already is as good as one that is made.
    async fn make_directory(&self, path: &[u8], mode: Option<u32>) -> anyhow::Result<()>;
    /// What is no directory makes way for it.
    async fn make_link(&self, path: &[u8], target: &[u8]) -> anyhow::Result<()>;
}

/// What something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) kind: FileKind,
    pub(super) mode: u32,
    /// Where a link leads.
    pub(super) target: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) told: Told,
}

/// Of one directory.
const MOST_ENTRIES: usize = 100_000;
/// Where paths begin that do not begin at the root.
const WORK: &[u8] = b"/workspace";

/// One that lives, wherever it does.
pub(super) struct InSandbox<'a> {
    plane: &'a Plane,
    id: String,
}

impl<'a> InSandbox<'a> {
    pub(super) async fn of(plane: &'a Plane, given: &str) -> anyhow::Result<Self> {
        Ok(Self { plane, id: find(plane, given).await? })
    }
}

#[async_trait]
impl Inside for InSandbox<'_> {
    async fn stat(&self, path: &[u8]) -> anyhow::Result<Told> {
        told(&self.plane.stat_file(&self.id, &from_root(path)).await?)
    }

    async fn list(&self, path: &[u8]) -> anyhow::Result<Vec<Entry>> {
        let listing = self.plane.list_files(&self.id, &from_root(path), MOST_ENTRIES).await?;
        anyhow::ensure!(!listing.more, "a directory has more than {MOST_ENTRIES} entries");
        let entry = |it: &FileEntry| {
            let name = bytes(Some(&it.name), it.name_base64.as_ref())?;
            Ok(Entry { name, told: told(it)? })
        };
        listing.entries.iter().map(entry).collect()
    }

    async fn read(&self, path: &[u8]) -> anyhow::Result<Held> {
        Ok(self.plane.read_file(&self.id, &from_root(path)).await?)
    }

    async fn write(&self, path: &[u8], mode: Option<u32>, content: &mut dyn Pieces) -> anyhow::Result<u64> {
        self.plane.write_file(&self.id, &from_root(path), mode, content).await
    }

    async fn make_directory(&self, path: &[u8], mode: Option<u32>) -> anyhow::Result<()> {
        self.plane.make_directory(&self.id, &from_root(path), mode).await?;
        Ok(())
    }

    async fn make_link(&self, path: &[u8], target: &[u8]) -> anyhow::Result<()> {
        self.plane.make_link(&self.id, &from_root(path), target).await?;
        Ok(())
    }
}

fn from_root(path: &[u8]) -> Vec<u8> {
    if path.first() == Some(&b'/') { path.to_vec() } else { below(WORK, path) }
}

fn told(it: &FileEntry) -> anyhow::Result<Told> {
    let target = bytes(it.target.as_ref(), it.target_base64.as_ref())?;
    Ok(Told { kind: it.kind, mode: it.mode, target })
}

/// What is no text is told otherwise, too.
fn bytes(text: Option<&String>, base64: Option<&String>) -> anyhow::Result<Vec<u8>> {
    match base64 {
        Some(base64) => Ok(STANDARD.decode(base64)?),
        None => Ok(text.map(|text| text.as_bytes().to_vec()).unwrap_or_default()),
    }
}

/// Whether it can be one part of a path, and no more than that.
pub(super) fn is_plain_name(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
}

/// One step further down.
pub(super) fn below(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = directory.to_vec();
    if !path.is_empty() && path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend(name);
    path
}

/// The last part of a path, where it has a name. None: it is a root, or ends in `.` or `..`.
pub(super) fn last_name(path: &[u8]) -> Option<&[u8]> {
    let end = path.iter().rposition(|byte| *byte != b'/')?;
    let name = path[..=end].rsplit(|byte| *byte == b'/').next()?;
    is_plain_name(name).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_a_path() {
        assert!(is_plain_name(b"a") && is_plain_name(b"...") && is_plain_name(b"\xff"));
        for wrong in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0"] {
            assert!(!is_plain_name(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn the_last_name_of_a_path_is_seen_through_slashes() {
        assert_eq!(last_name(b"/a/b//"), Some(&b"b"[..]));
        assert_eq!(last_name(b"a"), Some(&b"a"[..]));
        assert_eq!(
            (last_name(b"/"), last_name(b"a/.."), last_name(b"."), last_name(b"")),
            (None, None, None, None)
        );
    }
}
