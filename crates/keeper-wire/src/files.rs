//! Messages for file requests. File contents follow the messages as length-prefixed chunks; an empty chunk is the end.

use std::io::{self, Read, Write};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path or file name as raw bytes, usually UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathBytes(pub Vec<u8>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileRequest {
    /// Does not follow a symbolic link.
    Stat {
        path: PathBytes,
    },
    List {
        path: PathBytes,
        most: usize,
    },
    /// Answered by the metadata, the content as chunks, and `Done`.
    Read {
        path: PathBytes,
        from: u64,
        most: u64,
    },
    /// Answered by `Ready`; then the client sends chunks, answered by `Done`. The file appears complete or not at all. An
    /// existing file or symbolic link of that name is replaced.
    Write {
        path: PathBytes,
        mode: Option<u32>,
    },
    MakeDirectory {
        path: PathBytes,
        parents: bool,
    },
    /// Of a file or directory; does not follow a symbolic link.
    SetMode {
        path: PathBytes,
        mode: u32,
    },
    MakeLink {
        path: PathBytes,
        target: PathBytes,
    },
    Rename {
        from: PathBytes,
        to: PathBytes,
        replace: bool,
    },
    Remove {
        path: PathBytes,
        recursive: bool,
    },
    /// Answered by `Ready`, then by changes until the client closes the connection.
    Watch {
        path: PathBytes,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAnswer {
    Metadata(FileMetadata),
    Entries {
        entries: Vec<DirectoryEntry>,
    },
    Ready,
    Changes {
        changes: Vec<FileChange>,
    },
    /// The number of entries or bytes, and whether there are more than requested.
    Done {
        count: u64,
        more: bool,
    },
    Refused {
        reason: FileReason,
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMetadata {
    pub kind: FileKind,
    pub size: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified_ms: i64,
    /// Target of a symbolic link.
    pub target: Option<PathBytes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    File,
    Directory,
    Link,
    Pipe,
    Socket,
    Device,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    pub name: PathBytes,
    pub metadata: FileMetadata,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    pub kind: ChangeKind,
    /// Name in the watched directory; empty for the directory itself.
    pub name: PathBytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Appeared,
    Changed,
    Vanished,
    /// Events were lost: the client must list again.
    Missed,
    /// The watched directory is gone.
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileReason {
    BadPath,
    NotFound,
    NotADirectory,
    IsADirectory,
    /// A FIFO, a socket or a device, which could block forever.
    NotAFile,
    Exists,
    NotEmpty,
    /// A mount of the sandbox itself, such as `/proc`.
    InUse,
    Denied,
    Full,
    /// The keeper already serves its maximum number of file requests.
    Busy,
    Failed,
}

const MAX_CHUNK_BYTES: usize = 1 << 20;

pub fn send_chunk(stream: &mut impl Write, chunk: &[u8]) -> io::Result<()> {
    let length = u32::try_from(chunk.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&length.to_le_bytes())?;
    stream.write_all(chunk)
}

/// Receives a chunk. None at the end.
pub fn receive_chunk(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut chunk = vec![0; chunk_length(length)?];
    stream.read_exact(&mut chunk)?;
    Ok(if chunk.is_empty() { None } else { Some(chunk) })
}

/// Decodes a length prefix and checks it against the maximum.
pub fn chunk_length(length: [u8; 4]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > MAX_CHUNK_BYTES { Err(io::ErrorKind::InvalidData.into()) } else { Ok(length) }
}

/// As a string if it is UTF-8, otherwise as an array of numbers.
impl Serialize for PathBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_seq(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for PathBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::Text(text) => PathBytes(text.into_bytes()),
            Either::Bytes(bytes) => PathBytes(bytes),
        })
    }
}

impl From<&str> for PathBytes {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_of_a_name_survive_serialisation() {
        for bytes in [b"plain".to_vec(), vec![0xff, b'/', 0xfe], "süß".as_bytes().to_vec(), Vec::new()] {
            let name = PathBytes(bytes);
            let text = serde_json::to_string(&name).unwrap();

            assert_eq!(serde_json::from_str::<PathBytes>(&text).unwrap(), name, "{text}");
        }
    }

    #[test]
    fn an_empty_chunk_is_the_end_and_a_huge_one_an_error() {
        let mut sent = Vec::new();
        send_chunk(&mut sent, b"one").unwrap();
        send_chunk(&mut sent, b"").unwrap();
        sent.extend(u32::MAX.to_le_bytes());
        let mut stream = sent.as_slice();

        assert_eq!(receive_chunk(&mut stream).unwrap(), Some(b"one".to_vec()));
        assert_eq!(receive_chunk(&mut stream).unwrap(), None);
        assert!(receive_chunk(&mut stream).is_err());
    }
}
