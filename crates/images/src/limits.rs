//! How much an import may take. An archive that wants more is refused, and nothing of it is kept.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Of all layers of an image together, decompressed, with the archives' own headers.
    pub total_bytes: u64,
    /// Of one file. It must fit in an archive's oldest size field, so that there is only one size to believe.
    pub file_bytes: u64,
    /// Of one layer: files, directories and links, also directories that are only named on the way.
    pub entries: u64,
    pub path_bytes: usize,
    /// Directories within each other.
    pub depth: usize,
    /// How many bytes may come out of one, once more than `ratio_begins_bytes` have.
    pub compression_ratio: u64,
    pub ratio_begins_bytes: u64,
    pub layers: usize,
    /// For the unpacking of one archive or layer.
    pub seconds: u64,
    /// Memory of the unpacker.
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
