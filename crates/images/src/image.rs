//! The record of an image: shown in listings and stored as JSON.

use serde::{Deserialize, Serialize};

use crate::{ImageId, ImageName, LayerId};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub name: ImageName,
    pub id: ImageId,
    /// Top layer first.
    pub layers: Vec<LayerId>,
    /// Total size of the files in all layers.
    pub bytes: u64,
    /// Creation time as the image states it.
    pub created: Option<String>,
    /// When the import completed, in Unix milliseconds. Taken from the record file's mtime, not stored in it.
    #[serde(skip)]
    pub imported_ms: u64,
    pub settings: Settings,
    /// How many entries were skipped: devices, FIFOs, sockets, and links or files in place of a required directory.
    pub left_out: u64,
}

/// Run settings from the image's configuration. Untrusted text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Each is `NAME=value`.
    pub env: Vec<String>,
    /// Absolute.
    pub working_directory: Option<String>,
    pub user: Option<String>,
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
}
