//! What a sandbox is made of.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a sandbox consists of. Paths are those of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSetup {
    pub hostname: String,
    pub root: RootFilesystem,
    /// Directories of the host that are mounted inside, read-only, under the same path.
    pub shared: Vec<PathBuf>,
}

/// The layers and the storage of a root filesystem. Paths are those of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootFilesystem {
    /// Read-only, top layer first; at least one, without duplicates.
    pub layers: Vec<RootLayer>,
    pub storage: Storage,
}

/// A read-only directory that sandboxes share. Its whiteouts are in the unprivileged overlayfs form: character devices
/// 0/0 and `user.overlay.` attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootLayer {
    pub path: PathBuf,
    /// The id on disk that maps to root inside; the ids after it follow in order. None: no mapping, the only choice of an
    /// unprivileged user.
    pub first_id: Option<u32>,
}

/// The writable storage of the overlay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// A tmpfs, charged to the sandbox's memory.
    Memory { bytes: u64, inodes: u64 },
    /// A filesystem in a file, mounted by loop device.
    Image { file: PathBuf },
    /// A directory of the host, limited only by the host's disk.
    Directory { path: PathBuf },
}
