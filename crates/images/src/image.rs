//! An image as it is listed, and as it is written down.

use serde::{Deserialize, Serialize};

use crate::{ImageId, ImageName, LayerId};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub name: ImageName,
    pub id: ImageId,
    /// Topmost first.
    pub layers: Vec<LayerId>,
    /// Of the files of all layers.
    pub bytes: u64,
    /// As the image itself says.
    pub created: Option<String>,
    /// When the import was complete, in milliseconds of Unix time. The file's own time, not written in it.
    #[serde(skip)]
    pub imported_ms: u64,
    pub settings: Settings,
    /// Devices, FIFOs and sockets, and links or files where a directory must be.
    pub left_out: u64,
}

/// What the image asks for when it is run. All of it is text of strangers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Each is a name, `=` and a value.
    pub env: Vec<String>,
    /// Absolute.
    pub working_directory: Option<String>,
    pub user: Option<String>,
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
}
