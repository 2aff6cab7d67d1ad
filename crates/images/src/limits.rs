//! Limits of an import. An archive that exceeds one is refused, and nothing of it is kept.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Total decompressed bytes of all layers of an image, tar headers included.
    pub total_bytes: u64,
    /// Bytes of one file. Must fit in the ustar size field, so that no second size is ever consulted.
    pub file_bytes: u64,
    /// Files, directories and links in one layer, including implied parent directories.
    pub entries: u64,
    pub path_bytes: usize,
    /// Nesting depth of directories.
    pub depth: usize,
    /// Maximum decompressed bytes per compressed byte, checked above `ratio_begins_bytes` of output.
    pub compression_ratio: u64,
    pub ratio_begins_bytes: u64,
    pub layers: usize,
    /// Time limit for unpacking one archive or layer.
    pub seconds: u64,
    /// Address space of the unpacker.
    pub memory_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            total_bytes: 20 << 30,
            file_bytes: (8 << 30) - 1,
            entries: 2_000_000,
            path_bytes: 4_095,
            depth: 256,
            compression_ratio: 200,
            ratio_begins_bytes: 256 << 20,
            layers: 128,
            seconds: 30 * 60,
            memory_bytes: 1 << 30,
        }
    }
}
