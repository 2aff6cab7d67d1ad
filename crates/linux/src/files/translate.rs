//! Converts file types of the keeper protocol to those of the provider contract.

use pinfold_keeper_wire::files::{self as wire, FileAnswer, FileReason};
use pinfold_provider::{ChangeKind, DirectoryEntry, FileChange, FileError, FileKind, Metadata};

pub(super) fn metadata(found: wire::FileMetadata) -> Metadata {
    Metadata {
        kind: match found.kind {
            wire::FileKind::File => FileKind::File,
            wire::FileKind::Directory => FileKind::Directory,
            wire::FileKind::Link => FileKind::Link,
            wire::FileKind::Pipe => FileKind::Pipe,
            wire::FileKind::Socket => FileKind::Socket,
            wire::FileKind::Device => FileKind::Device,
        },
        size: found.size,
        mode: found.mode,
        uid: found.uid,
        gid: found.gid,
        modified_ms: found.modified_ms,
        target: found.target.map(|name| name.0),
    }
}

pub(super) fn entry(found: wire::DirectoryEntry) -> DirectoryEntry {
    DirectoryEntry { name: found.name.0, metadata: metadata(found.metadata) }
}

pub(super) fn change(found: wire::FileChange) -> FileChange {
    let kind = match found.kind {
        wire::ChangeKind::Appeared => ChangeKind::Appeared,
        wire::ChangeKind::Changed => ChangeKind::Changed,
        wire::ChangeKind::Vanished => ChangeKind::Vanished,
        wire::ChangeKind::Missed => ChangeKind::Missed,
        wire::ChangeKind::Gone => ChangeKind::Gone,
    };
    FileChange { kind, name: found.name.0 }
}

/// Turns a refusal into an error and passes every other answer through.
pub(super) fn refusal(answer: FileAnswer) -> Result<FileAnswer, FileError> {
    let FileAnswer::Refused { reason, why } = answer else { return Ok(answer) };
    Err(match reason {
        FileReason::BadPath => FileError::BadPath { why },
        FileReason::NotFound => FileError::NotFound { why },
        FileReason::NotADirectory => FileError::NotADirectory { why },
        FileReason::IsADirectory => FileError::IsADirectory { why },
        FileReason::NotAFile => FileError::NotAFile { why },
        FileReason::Exists => FileError::Exists { why },
        FileReason::NotEmpty => FileError::NotEmpty { why },
        FileReason::InUse => FileError::InUse { why },
        FileReason::Denied => FileError::Denied { why },
        FileReason::Full => FileError::Full { why },
        FileReason::Busy => FileError::Busy { why },
        FileReason::Failed => FileError::Failed { why },
    })
}
