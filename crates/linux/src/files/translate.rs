//! From the keeper's words to the provider's.

use pinfold_keeper::files::wire::{self, FileAnswer, FileReason};
use pinfold_provider::{Change, ChangeKind, Entry, FileError, FileKind, Metadata};

pub(super) fn metadata(told: wire::Metadata) -> Metadata {
    Metadata {
        kind: match told.kind {
            wire::FileKind::File => FileKind::File,
            wire::FileKind::Directory => FileKind::Directory,
            wire::FileKind::Link => FileKind::Link,
            wire::FileKind::Pipe => FileKind::Pipe,
            wire::FileKind::Socket => FileKind::Socket,
            wire::FileKind::Device => FileKind::Device,
        },
        size: told.size,
        mode: told.mode,
        uid: told.uid,
        gid: told.gid,
        modified_ms: told.modified_ms,
        target: told.target.map(|name| name.0),
    }
}

pub(super) fn entry(told: wire::Entry) -> Entry {
    Entry { name: told.name.0, metadata: metadata(told.metadata) }
}

pub(super) fn change(told: wire::Change) -> Change {
    let kind = match told.kind {
        wire::ChangeKind::Appeared => ChangeKind::Appeared,
        wire::ChangeKind::Changed => ChangeKind::Changed,
        wire::ChangeKind::Vanished => ChangeKind::Vanished,
        wire::ChangeKind::Missed => ChangeKind::Missed,
        wire::ChangeKind::Gone => ChangeKind::Gone,
    };
    Change { kind, name: told.name.0 }
}

/// Every answer but a refusal.
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
