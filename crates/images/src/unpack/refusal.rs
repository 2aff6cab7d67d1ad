//! Why an archive is not unpacked. Names from the archive are shown escaped.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    #[error("it is not a tar archive, neither plain nor compressed with gzip or zstd")]
    NotAnArchive,
    #[error("it is compressed with {with}: only gzip and zstd are understood")]
    UnknownCompression { with: String },
    #[error("its compression is damaged: {why}")]
    BadCompression { why: String },
    #[error("it is cut short")]
    CutShort,
    #[error("the header at byte {at} is damaged: {why}")]
    BadHeader { at: u64, why: String },
    #[error("`{path}` has two sizes: {ustar} bytes in its header and {pax} in its extension")]
    TwoSizes { path: String, ustar: u64, pax: u64 },
    #[error("`{path}` is a link or directory and yet has contents")]
    UnexpectedContents { path: String },
    #[error("`{path}` is of kind `{kind}`, which is not understood")]
    UnknownKind { path: String, kind: String },
    #[error("`{path}` is a sparse file, which is not understood")]
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
    #[error("`{path}` is a directory already")]
    AlreadyDirectory { path: String },
    #[error("`{path}` is a hard link to `{target}`, which is not in the archive before it")]
    NoLinkTarget { path: String, target: String },
    #[error("`{path}` is a hard link to `{target}`, which is not a file")]
    BadLinkTarget { path: String, target: String },
    #[error("`{path}` has {bytes} bytes, {most} are allowed for a file")]
    FileTooBig { path: String, bytes: u64, most: u64 },
    #[error("it holds more than {most} bytes")]
    TooManyBytes { most: u64 },
    #[error("it holds more than {most} files, directories and links")]
    TooManyEntries { most: u64 },
    #[error("more than {most} bytes come out of every one that goes in: it is a decompression bomb")]
    Bomb { most: u64 },
    #[error("could not {doing} `{path}`: {why}")]
    Failed { doing: String, path: String, why: String },
    #[error("could not be confined: {why}")]
    NotConfined { why: String },
}

/// A name from an archive as it can be shown to anyone.
pub(super) fn shown(name: &[u8]) -> String {
    const LONGEST: usize = 200;
    let text = String::from_utf8_lossy(name);
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().count() > LONGEST {
        shown.push('…');
    }
    shown
}
