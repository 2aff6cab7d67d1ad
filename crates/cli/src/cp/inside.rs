//! Files in a sandbox, as a copy needs them.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_lifecycle::{Life, SandboxId};
use pinfold_linux::LinuxProvider;
use pinfold_provider::{Body, Content, Entry, FileError, Files, Metadata, Pieces};
use pinfold_store::{Row, Store};

use crate::documents::word;
use crate::failure::Failure;
use crate::find::find;
use crate::host::Host;
use crate::plane::Plane;

/// What is told by it is not to be trusted: whoever has taken over a sandbox may have told it.
#[async_trait]
pub(super) trait Inside: Send + Sync {
    async fn stat(&self, path: &[u8]) -> Result<Metadata, FileError>;
    async fn list(&self, path: &[u8]) -> Result<Vec<Entry>, FileError>;
    async fn read(&self, path: &[u8]) -> Result<Content, FileError>;
    async fn write(&self, path: &[u8], mode: Option<u32>, content: &mut dyn Pieces)
    -> Result<u64, FileError>;
    /// One that is there already is as good as one that is made.
    async fn make_directory(&self, path: &[u8]) -> Result<(), FileError>;
    async fn set_mode(&self, path: &[u8], mode: u32) -> Result<(), FileError>;
    /// What is no directory makes way for it.
    async fn make_link(&self, path: &[u8], target: &[u8]) -> Result<(), FileError>;
}

/// Of one directory.
const MOST_ENTRIES: usize = 100_000;

/// A body on this host.
pub(super) struct InBody {
    provider: Arc<LinuxProvider>,
    body: Body,
}

impl InBody {
    pub(super) async fn of(plane: &Plane, host: &Host, given: &str) -> anyhow::Result<Self> {
        let id: SandboxId = find(plane, given).await?.parse()?;
        let stored = match host.store.load(id).await? {
            Some(Row::Readable(stored)) => stored,
            Some(Row::Unreadable(row)) => {
                anyhow::bail!("the record of {} cannot be read: {}", row.id, row.why)
            }
            None => return Err(Failure::Unknown { given: given.to_owned() }.into()),
        };
        match stored.sandbox.life {
            Life::Wanted => {
                let body = Body { sandbox: id, generation: stored.sandbox.generation() };
                Ok(Self { provider: host.provider.clone(), body })
            }
            Life::Ending { cause, .. } => anyhow::bail!("{id} is being ended: {}", word(&cause)),
            Life::Ended { cause, .. } => anyhow::bail!("{id} has ended: {}", word(&cause)),
        }
    }
}

#[async_trait]
impl Inside for InBody {
    async fn stat(&self, path: &[u8]) -> Result<Metadata, FileError> {
        self.provider.stat(self.body, path).await
    }

    async fn list(&self, path: &[u8]) -> Result<Vec<Entry>, FileError> {
        let listing = self.provider.list(self.body, path, MOST_ENTRIES).await?;
        if listing.more {
            let why = format!("a directory has more than {MOST_ENTRIES} entries");
            return Err(FileError::Failed { why });
        }
        Ok(listing.entries)
    }

    async fn read(&self, path: &[u8]) -> Result<Content, FileError> {
        self.provider.read(self.body, path, 0, u64::MAX).await
    }

    async fn write(
        &self,
        path: &[u8],
        mode: Option<u32>,
        content: &mut dyn Pieces,
    ) -> Result<u64, FileError> {
        self.provider.write(self.body, path, mode, content).await
    }

    async fn make_directory(&self, path: &[u8]) -> Result<(), FileError> {
        match self.provider.make_directory(self.body, path, false).await {
            Err(FileError::Exists { .. }) => match self.stat(path).await?.kind {
                pinfold_provider::FileKind::Directory => Ok(()),
                _ => Err(FileError::NotADirectory { why: "something else has its name".into() }),
            },
            other => other,
        }
    }

    async fn set_mode(&self, path: &[u8], mode: u32) -> Result<(), FileError> {
        self.provider.set_mode(self.body, path, mode).await
    }

    async fn make_link(&self, path: &[u8], target: &[u8]) -> Result<(), FileError> {
        match self.provider.make_link(self.body, path, target).await {
            Err(FileError::Exists { .. }) => {
                self.provider.remove(self.body, path, false).await?;
                self.provider.make_link(self.body, path, target).await
            }
            other => other,
        }
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
