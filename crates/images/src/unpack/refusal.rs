//! Reasons to refuse an archive. Names from the archive are escaped for display.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    #[error("not a tar archive, plain or compressed with gzip or zstd")]
    NotAnArchive,
    #[error("compressed with {with}: only gzip and zstd are supported")]
    UnknownCompression { with: String },
    #[error("the compressed data is damaged: {why}")]
    BadCompression { why: String },
    #[error("the archive is truncated")]
    CutShort,
    #[error("the header at byte {at} is damaged: {why}")]
    BadHeader { at: u64, why: String },
    #[error("`{path}` has two sizes: {ustar} bytes in its header and {pax} in its extension")]
    TwoSizes { path: String, ustar: u64, pax: u64 },
    #[error("`{path}` is a link or directory but has contents")]
    UnexpectedContents { path: String },
    #[error("`{path}` has the unsupported entry type `{kind}`")]
    UnknownKind { path: String, kind: String },
    #[error("`{path}` is a sparse file, which is not supported")]
    Sparse { path: String },
    #[error("`{path}` leads out of the image")]
    LeadsOutside { path: String },
    #[error("`{path}` leads through a symbolic link")]
    ThroughLink { path: String },
    #[error("`{path}` leads through something that is not a directory")]
    ThroughFile { path: String },
    #[error("`{path}` has a NUL in its name")]
    NulInName { path: String },
    #[error("`{path}` has no name")]
    NoName { path: String },
    #[error("the name `{path}` is too long: {bytes} bytes, {most} are allowed")]
    NameTooLong { path: String, bytes: usize, most: usize },
    #[error("`{path}` is {depth} directories deep, {most} are allowed")]
    TooDeep { path: String, depth: usize, most: usize },
    #[error("`{path}` is already a directory")]
    AlreadyDirectory { path: String },
    #[error("`{path}` is a hard link to `{target}`, which is not in the archive before it")]
    NoLinkTarget { path: String, target: String },
    #[error("`{path}` is a hard link to `{target}`, which is not a file")]
    BadLinkTarget { path: String, target: String },
    #[error("`{path}` has {bytes} bytes, {most} are allowed for a file")]
    FileTooBig { path: String, bytes: u64, most: u64 },
    #[error("the archive holds more than {most} bytes")]
    TooManyBytes { most: u64 },
    #[error("the archive holds more than {most} files, directories and links")]
    TooManyEntries { most: u64 },
    #[error("decompression bomb: the compression ratio exceeds {most}")]
    Bomb { most: u64 },
    #[error("could not {doing} `{path}`: {why}")]
    Failed { doing: String, path: String, why: String },
    #[error("the unpacker could not be confined: {why}")]
    NotConfined { why: String },
}

/// Escapes and shortens a name from an archive for display.
pub(super) fn shown(name: &[u8]) -> String {
    const LONGEST: usize = 200;
    let text = String::from_utf8_lossy(name);
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().count() > LONGEST {
        shown.push('…');
    }
    shown
}
