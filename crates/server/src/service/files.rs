//! Files inside a sandbox.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::{ErrorCode, FileEntry, FileListing, FileRemoved, FileWritten};
use pinfold_lifecycle::{Lease, Life, SandboxId, Timestamp};
use pinfold_provider::{Content, FileError, FileKind, Files, InstanceId, Metadata, Pieces};
use pinfold_store::Stored;

use super::words::{self, moment};
use super::{Failure, Service, body_of};

impl Service {
    /// From a place on, no more than `most` bytes.
    pub async fn read_file(
        &self,
        id: SandboxId,
        path: &[u8],
        from: u64,
        most: u64,
    ) -> Result<Content, Failure> {
        let body = self.body_at_work(id).await?;
        Ok(self.host.provider.read(body, path, from, most).await?)
    }

    pub async fn write_file(
        &self,
        id: SandboxId,
        path: &[u8],
        mode: Option<u32>,
        content: &mut dyn Pieces,
    ) -> Result<FileWritten, Failure> {
        let body = self.body_at_work(id).await?;
        let bytes = self.host.provider.write(body, path, mode, content).await?;
        Ok(FileWritten { path: text(path), bytes })
    }

    /// Of a link itself, not of what it leads to.
    pub async fn stat_file(&self, id: SandboxId, path: &[u8]) -> Result<FileEntry, Failure> {
        let body = self.body_at_work(id).await?;
        let told = self.host.provider.stat(body, path).await?;
        let name = path.split(|byte| *byte == b'/').rfind(|part| !part.is_empty());
        Ok(entry(name.unwrap_or(b"/"), &told))
    }

    /// One that is there already is as good as one that is made.
    pub async fn make_directory(
        &self,
        id: SandboxId,
        path: &[u8],
        mode: Option<u32>,
    ) -> Result<FileWritten, Failure> {
        let body = self.body_at_work(id).await?;
        let provider = &self.host.provider;
        match provider.make_directory(body, path, false).await {
            Err(FileError::Exists { why }) => {
                if provider.stat(body, path).await?.kind != FileKind::Directory {
                    return Err(FileError::Exists { why }.into());
                }
            }
            made => made?,
        }
        if let Some(mode) = mode {
            provider.set_mode(body, path, mode).await?;
        }
        Ok(FileWritten { path: text(path), bytes: 0 })
    }

    /// What is no directory makes way for it.
    pub async fn make_link(&self, id: SandboxId, path: &[u8], target: &[u8]) -> Result<FileWritten, Failure> {
        let body = self.body_at_work(id).await?;
        let provider = &self.host.provider;
        match provider.make_link(body, path, target).await {
            Err(FileError::Exists { .. }) => {
                provider.remove(body, path, false).await?;
                provider.make_link(body, path, target).await?;
            }
            made => made?,
        }
        Ok(FileWritten { path: text(path), bytes: target.len() as u64 })
    }

    /// By their names, no more than `most`.
    pub async fn list_files(&self, id: SandboxId, path: &[u8], most: usize) -> Result<FileListing, Failure> {
        let body = self.body_at_work(id).await?;
        let listing = self.host.provider.list(body, path, most).await?;
        let mut entries: Vec<_> = listing.entries.iter().map(|it| entry(&it.name, &it.metadata)).collect();
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(FileListing { path: text(path), entries, more: listing.more })
    }

    pub async fn remove_file(
        &self,
        id: SandboxId,
        path: &[u8],
        recursive: bool,
    ) -> Result<FileRemoved, Failure> {
        let body = self.body_at_work(id).await?;
        let removed = self.host.provider.remove(body, path, recursive).await?;
        Ok(FileRemoved { path: text(path), removed })
    }

    async fn body_at_work(&self, id: SandboxId) -> Result<InstanceId, Failure> {
        let stored = self.stored(id).await?;
        at_work(&stored)
    }
}

/// Asking what has ended to work is told why it has. One whose probe is still to pass may be replaced if it does not, and
/// whatever was put into it would go with it.
fn at_work(stored: &Stored) -> Result<InstanceId, Failure> {
    match (&stored.sandbox.life, &stored.sandbox.lease) {
        (Life::Wanted, Lease::Live(_)) => Ok(body_of(stored)),
        (Life::Wanted, _) => Err(Failure::new(
            ErrorCode::WrongState,
            "the sandbox is not ready yet: wait for it with `/wait?state=ready`, or create it with `?wait=30`",
        )),
        (Life::Ending { cause, .. } | Life::Ended { cause, .. }, _) => Err(Failure::gone(*cause)),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What is no text, whole.
fn no_text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).is_err().then(|| STANDARD.encode(bytes))
}

fn entry(name: &[u8], metadata: &Metadata) -> FileEntry {
    let target = metadata.target.as_deref();
    FileEntry {
        name: text(name),
        name_base64: no_text(name),
        kind: words::file_kind(metadata.kind),
        size: metadata.size,
        mode: metadata.mode,
        uid: metadata.uid,
        gid: metadata.gid,
        modified_at: moment(Timestamp(metadata.modified_ms)),
        target: target.map(text),
        target_base64: target.and_then(no_text),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pinfold_lifecycle::{Context, NodeId, Policy, Spec, create};
    use pinfold_store::Version;

    use super::*;

    #[test]
    fn nothing_is_put_into_a_body_that_may_still_be_replaced() {
        let policy = Policy::default();
        let ctx = Context { now: Timestamp(1), node: NodeId(1), policy: &policy };
        let sandbox = create(SandboxId(1), ctx).sandbox;
        let stored = Stored {
            sandbox,
            spec: Arc::new(Spec::default()),
            policy: Arc::new(policy),
            version: Version(1),
        };

        let refused = at_work(&stored).unwrap_err();

        assert_eq!(refused.detail.code, ErrorCode::WrongState);
    }
}
