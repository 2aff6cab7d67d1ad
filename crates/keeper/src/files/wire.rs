//! What is asked of files inside and what is answered. Contents travel beside the messages, as pieces with their
//! length before them; an empty piece is the end.

use std::io::{self, Read, Write};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path or a name as the kernel has it: bytes that are text most of the time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub Vec<u8>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileRequest {
    /// Of a link itself, not of what it leads to.
    Stat {
        path: Name,
    },
    List {
        path: Name,
        most: usize,
    },
    /// Answered by the metadata, the content as pieces, and how it ended.
    Read {
        path: Name,
        from: u64,
        most: u64,
    },
    /// Answered by `Ready`, fed by pieces, and answered again. The file appears whole or not at all; what was
    /// there under this name, a link too, is replaced.
    Write {
        path: Name,
        mode: Option<u32>,
    },
    MakeDirectory {
        path: Name,
        parents: bool,
    },
    /// Of a file or a directory; no link is followed.
    SetMode {
        path: Name,
        mode: u32,
    },
    MakeLink {
        path: Name,
        target: Name,
    },
    Rename {
        from: Name,
        to: Name,
        replace: bool,
    },
    Remove {
        path: Name,
        recursive: bool,
    },
    /// Answered by `Ready`, then by changes until whoever asked closes the connection.
    Watch {
        path: Name,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAnswer {
    Metadata(Metadata),
    Entries {
        entries: Vec<Entry>,
    },
    Ready,
    Changes {
        changes: Vec<Change>,
    },
    /// How many entries or bytes there were, and whether there are more than were asked for.
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
pub struct Metadata {
    pub kind: FileKind,
    pub size: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified_ms: i64,
    /// Where a link leads.
    pub target: Option<Name>,
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
pub struct Entry {
    pub name: Name,
    pub metadata: Metadata,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub kind: ChangeKind,
    /// In the directory that is watched; empty where it is about that itself.
    pub name: Name,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Appeared,
    Changed,
    Vanished,
    /// More happened than could be kept: look again.
    Missed,
    /// What was watched is no longer there.
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileReason {
    BadPath,
    NotFound,
    NotADirectory,
    IsADirectory,
    /// A pipe, a socket or a device, which may never answer.
    NotAFile,
    Exists,
    NotEmpty,
    /// A part of the world itself, such as `/proc`.
    InUse,
    Denied,
    Full,
    /// As many requests as the keeper serves at a time.
    Busy,
    Failed,
}

const LONGEST_PIECE: usize = 1 << 20;

pub fn send_piece(stream: &mut impl Write, piece: &[u8]) -> io::Result<()> {
    let length = u32::try_from(piece.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&length.to_le_bytes())?;
    stream.write_all(piece)
}

/// None at the end.
pub fn receive_piece(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut piece = vec![0; piece_length(length)?];
    stream.read_exact(&mut piece)?;
    Ok(if piece.is_empty() { None } else { Some(piece) })
}

/// The length that stands before a piece, if a piece may be so long.
pub fn piece_length(length: [u8; 4]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > LONGEST_PIECE { Err(io::ErrorKind::InvalidData.into()) } else { Ok(length) }
}

/// As text where it is text, else as numbers.
impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_seq(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::Text(text) => Name(text.into_bytes()),
            Either::Bytes(bytes) => Name(bytes),
        })
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_whatever_its_bytes_are() {
        for bytes in [b"plain".to_vec(), vec![0xff, b'/', 0xfe], "süß".as_bytes().to_vec(), Vec::new()] {
            let name = Name(bytes);
            let text = serde_json::to_string(&name).unwrap();

            assert_eq!(serde_json::from_str::<Name>(&text).unwrap(), name, "{text}");
        }
    }

    #[test]
    fn an_empty_piece_is_the_end_and_a_huge_one_an_error() {
        let mut sent = Vec::new();
        send_piece(&mut sent, b"one").unwrap();
        send_piece(&mut sent, b"").unwrap();
        sent.extend(u32::MAX.to_le_bytes());
        let mut stream = sent.as_slice();

        assert_eq!(receive_piece(&mut stream).unwrap(), Some(b"one".to_vec()));
        assert_eq!(receive_piece(&mut stream).unwrap(), None);
        assert!(receive_piece(&mut stream).is_err());
    }
}
