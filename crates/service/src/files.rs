//! File operations inside a sandbox.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_api::{ErrorCode, FileEntry, FileListing, FileRemoved, FileWritten};
use pinfold_lifecycle::{Lease, Life, SandboxId, Timestamp};
use pinfold_provider::{ContentStream, FileContent, FileError, FileKind, InstanceId, Metadata};
use pinfold_store::StoredSandbox;

use super::convert::{self, rfc3339};
use super::{Failure, Service, instance_of};

impl Service {
    /// Reads at most `most` bytes from offset `from`.
    pub async fn read_file(
        &self,
        id: SandboxId,
        path: &[u8],
        from: u64,
        most: u64,
    ) -> Result<FileContent, Failure> {
        let instance = self.working_instance(id).await?;
        Ok(self.host.provider.files().read(instance, path, from, most).await?)
    }

    pub async fn write_file(
        &self,
        id: SandboxId,
        path: &[u8],
        mode: Option<u32>,
        content: &mut dyn ContentStream,
    ) -> Result<FileWritten, Failure> {
        let instance = self.working_instance(id).await?;
        let bytes = self.host.provider.files().write(instance, path, mode, content).await?;
        Ok(FileWritten { path: text(path), bytes })
    }

    /// Metadata of a path. Symbolic links are not followed.
    pub async fn stat_file(&self, id: SandboxId, path: &[u8]) -> Result<FileEntry, Failure> {
        let instance = self.working_instance(id).await?;
        let metadata = self.host.provider.files().stat(instance, path).await?;
        let name = path.split(|byte| *byte == b'/').rfind(|part| !part.is_empty());
        Ok(entry(name.unwrap_or(b"/"), &metadata))
    }

    /// Creates a directory. An existing directory is not an error.
    pub async fn make_directory(
        &self,
        id: SandboxId,
        path: &[u8],
        mode: Option<u32>,
    ) -> Result<FileWritten, Failure> {
        let instance = self.working_instance(id).await?;
        let provider = self.host.provider.files();
        match provider.make_directory(instance, path, false).await {
            Err(FileError::Exists { why }) => {
                if provider.stat(instance, path).await?.kind != FileKind::Directory {
                    return Err(FileError::Exists { why }.into());
                }
            }
            made => made?,
        }
        if let Some(mode) = mode {
            provider.set_mode(instance, path, mode).await?;
        }
        Ok(FileWritten { path: text(path), bytes: 0 })
    }

    /// Creates a symbolic link. It replaces anything but a directory.
    pub async fn make_link(&self, id: SandboxId, path: &[u8], target: &[u8]) -> Result<FileWritten, Failure> {
        let instance = self.working_instance(id).await?;
        let provider = self.host.provider.files();
        match provider.make_link(instance, path, target).await {
            Err(FileError::Exists { .. }) => {
                provider.remove(instance, path, false).await?;
                provider.make_link(instance, path, target).await?;
            }
            made => made?,
        }
        Ok(FileWritten { path: text(path), bytes: target.len() as u64 })
    }

    /// Lists a directory sorted by name, at most `most` entries.
    pub async fn list_files(&self, id: SandboxId, path: &[u8], most: usize) -> Result<FileListing, Failure> {
        let instance = self.working_instance(id).await?;
        let listing = self.host.provider.files().list(instance, path, most).await?;
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
        let instance = self.working_instance(id).await?;
        let removed = self.host.provider.files().remove(instance, path, recursive).await?;
        Ok(FileRemoved { path: text(path), removed })
    }

    async fn working_instance(&self, id: SandboxId) -> Result<InstanceId, Failure> {
        let stored = self.stored(id).await?;
        working_instance_of(&stored)
    }
}

/// The instance that file operations may use. An ended sandbox reports its cause. One that is not ready yet could
/// still be replaced, and files written into it would be lost.
fn working_instance_of(stored: &StoredSandbox) -> Result<InstanceId, Failure> {
    match (&stored.sandbox.life, &stored.sandbox.lease) {
        (Life::Wanted, Lease::Live(_)) => Ok(instance_of(stored)),
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

/// The bytes as base64, where they are not UTF-8.
fn base64_unless_utf8(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).is_err().then(|| STANDARD.encode(bytes))
}

fn entry(name: &[u8], metadata: &Metadata) -> FileEntry {
    let target = metadata.target.as_deref();
    FileEntry {
        name: text(name),
        name_base64: base64_unless_utf8(name),
        kind: convert::file_kind(metadata.kind),
        size: metadata.size,
        mode: metadata.mode,
        uid: metadata.uid,
        gid: metadata.gid,
        modified_at: rfc3339(Timestamp(metadata.modified_ms)),
        target: target.map(text),
        target_base64: target.and_then(base64_unless_utf8),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pinfold_lifecycle::{Context, NodeId, Policy, Spec, create};
    use pinfold_store::Version;

    use super::*;

    #[test]
    fn a_starting_sandbox_refuses_file_operations() {
        let policy = Policy::default();
        let ctx = Context { now: Timestamp(1), node: NodeId(1), policy: &policy };
        let sandbox = create(SandboxId(1), ctx).sandbox;
        let stored = StoredSandbox {
            sandbox,
            spec: Arc::new(Spec::default()),
            policy: Arc::new(policy),
            version: Version(1),
        };

        let refused = working_instance_of(&stored).unwrap_err();

        assert_eq!(refused.detail.code, ErrorCode::WrongState);
    }
}
