//! What is said over a keeper's control socket and to the nursery: one length and one JSON text for each message.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::disk::Disk;
use crate::files::wire::FileRequest;
use crate::log::Onset;
use crate::used::Counted;
use crate::world::World;

/// No message is longer: a peer that says so is not one of ours.
pub const LONGEST: usize = 4 * 1024 * 1024;

/// What a control plane asks of a keeper.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The launch is still wanted: work may begin.
    Go,
    Ping {
        nonce: String,
    },
    /// All that work needs, really tried: the places, a round trip through a file, a program that ends. Answered when
    /// it is done, or when it took too long.
    Probe {
        nonce: String,
        within_ms: u64,
    },
    Exec(Box<Exec>),
    /// Answered when it has ended.
    Wait {
        execution: String,
    },
    Kill {
        execution: String,
    },
    /// To the group of processes that the execution's first one leads.
    Signal {
        execution: String,
        signal: i32,
    },
    /// For the execution's input. `at`: how many bytes were fed before; what was accepted already is passed over, so
    /// that the same may be fed again. `close`: nothing comes after these.
    Feed {
        execution: String,
        at: u64,
        #[serde(with = "hex")]
        bytes: Vec<u8>,
        close: bool,
    },
    Resize {
        execution: String,
        size: TerminalSize,
    },
    List,
    /// How much was done here, and when last.
    Activity,
    /// What the sandbox's own storage holds, and what has run in it has used.
    Usage,
    /// When the keeper ends everything by itself, in milliseconds from now.
    KeepAlive {
        left_ms: u64,
    },
    /// SIGTERM to everything inside.
    Terminate,
    /// Answered by a child of the keeper, in the words of [`crate::files::wire`].
    Files(FileRequest),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Exec {
    pub execution: String,
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub workdir: String,
    pub timeout_ms: Option<u64>,
    pub inactivity_ms: Option<u64>,
    pub console: Console,
    /// Where its output goes on, if an earlier body was to run it before.
    #[serde(default)]
    pub output: Onset,
}

/// What an execution reads from and writes to. What it writes is kept in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Console {
    /// There is nothing to read.
    Quiet,
    /// What is fed is read from a pipe.
    Piped,
    /// A terminal of its own, for reading and writing.
    Terminal(TerminalSize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    pub columns: u16,
    pub rows: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    Done,
    /// The nonce that was asked with, the secret that only this keeper was born with, and whether it was told to go.
    /// Besides, which of the mounts that its world is made of is not there any more.
    Pong {
        nonce: String,
        secret: String,
        wanted: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<String>,
    },
    /// The same proof of who answers, and what does not work, if anything.
    Probed {
        nonce: String,
        secret: String,
        wanted: bool,
        failed: Option<ProbeFailed>,
    },
    Executions(Vec<Execution>),
    /// No disk where it could not be looked at, and nothing counted where control groups do that.
    Usage {
        disk: Option<Disk>,
        counted: Option<Counted>,
    },
    Ended(Ended),
    /// How many bytes were accepted in all, and whether nothing more is.
    Fed {
        accepted: u64,
        closed: bool,
    },
    /// Executions started, pieces of output kept and files served since birth; and how long ago the last of them was.
    Activity {
        operations: u64,
        quiet_ms: u64,
    },
    /// It cannot be done, for certain.
    Refused {
        reason: Reason,
        why: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    NotYet,
    NoSuchExecution,
    WasKilled,
    NotFound,
    NotExecutable,
    /// It has ended.
    NotRunning,
    /// It was not started with what is asked of it: an input, a terminal.
    NotSoStarted,
    NoSuchSignal,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeFailed {
    Files(String),
    Exec(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    pub execution: String,
    /// How long ago it last wrote something.
    pub quiet_ms: u64,
    pub ended: Option<Ended>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub by: EndedBy,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Keepers of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Survived::is_nothing")]
    pub survived: Survived,
}

/// How often all executions together ran into limits while this one ran, other than what it ended for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Survived {
    pub memory_limit: u64,
    pub process_limit: u64,
}

impl Survived {
    pub const NOTHING: Self = Self { memory_limit: 0, process_limit: 0 };

    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::NOTHING
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    Itself,
    Kill,
    TimeLimit,
    Inactivity,
    OutputLimit,
    /// The sandbox has taken more steps than it may. Without code and signal: it was not even started.
    OperationLimit,
    MemoryLimit,
    CpuLimit,
    /// It could not make a process, and failed.
    ProcessLimit,
    /// It failed by itself, and its storage was full.
    DiskLimit,
}

/// What is asked of the nursery. File descriptors come with it, in this order: the control socket to listen on,
/// the directory for output, the locked file that says which process the keeper is, the groups to join, and what
/// [`WorkGroup`] names.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Birth {
    pub world: World,
    pub secret: String,
    pub ids: IdMap,
    /// The first of the groups is a directory that the keeper is born into.
    pub born_into: bool,
    /// How many of the descriptors are for the keeper itself to join, and how many for what it runs.
    pub keeper_groups: usize,
    pub work_groups: usize,
    pub work: WorkGroup,
    pub limits: BodyLimits,
    pub left_ms: u64,
    /// The sandbox belongs to whoever asked for it, and ends when that process is gone.
    pub ends_with_caller: bool,
    /// Guards that this one does without.
    #[cfg(feature = "weakened")]
    pub weaknesses: Vec<crate::weakness::Weakness>,
}

/// Which descriptors of the group that all executions are in come last, in this order. Where there are none, the
/// keeper holds executions together by itself, and their breaches of limits go unseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkGroup {
    /// Its v2 directory, in which the keeper makes a group for each execution.
    pub directory: bool,
    /// The file that counts processes killed for want of memory.
    pub memory_events: bool,
    /// The file that counts processes that could not be made.
    pub process_events: bool,
}

impl WorkGroup {
    #[must_use]
    pub fn count(self) -> usize {
        usize::from(self.directory) + usize::from(self.memory_events) + usize::from(self.process_events)
    }
}

/// What the keeper itself holds executions to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyLimits {
    /// Of one execution with all its processes.
    pub cpu_time_ms: Option<u64>,
    /// Of one execution; no more than so much is ever read from it.
    pub output_bytes: u64,
    /// Of one process. None: as many as is usual.
    pub open_files: Option<u64>,
    /// Of the whole body, as [`Response::Activity`] counts them. Control planes of earlier versions do not say.
    pub operations: Option<u64>,
}

/// How the ids inside stand for ids outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMap {
    pub uid: u32,
    pub gid: u32,
    pub count: u32,
}

/// What the nursery answers. The process's pidfd comes with a birth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Born {
    Pid(i32),
    Failed(String),
}

pub fn send(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    stream.write_all(&frame(message)?)
}

/// A message as it travels, to be written at once: who reads it wakes up once.
pub fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(message)?;
    let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut frame = Vec::with_capacity(text.len() + 4);
    frame.extend(length.to_le_bytes());
    frame.extend(text);
    Ok(frame)
}

pub fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length];
    stream.read_exact(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Takes a whole message off the front of what has arrived, if one is there.
pub fn take<T: DeserializeOwned>(arrived: &mut Vec<u8>) -> io::Result<Option<T>> {
    let Some(length) = arrived.first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if arrived.len() < 4 + length {
        return Ok(None);
    }
    let message = serde_json::from_slice(&arrived[4..4 + length])?;
    arrived.drain(..4 + length);
    Ok(Some(message))
}

/// Bytes as text, two letters each.
mod hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    const DIGITS: &[u8; 16] = b"0123456789abcdef";

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
        let text: String = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect();
        serializer.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some(value(*high)? << 4 | value(*low)?),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
        bytes.ok_or_else(|| D::Error::custom("not bytes as two letters each"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_ended_can_be_read_of_a_keeper_of_an_earlier_version() {
        let earlier = r#"{"by":"itself","code":0,"signal":null}"#;

        let ended: Ended = serde_json::from_str(earlier).unwrap();

        assert_eq!(ended.survived, Survived::NOTHING);
        assert_eq!(serde_json::to_string(&ended).unwrap(), earlier);
    }

    #[test]
    fn a_keeper_of_an_earlier_version_answers_a_ping_and_says_nothing_of_mounts() {
        let earlier = r#"{"pong":{"nonce":"n","secret":"s","wanted":true}}"#;

        let pong: Response = serde_json::from_str(earlier).unwrap();

        let (nonce, secret) = ("n".to_owned(), "s".to_owned());
        assert_eq!(pong, Response::Pong { nonce, secret, wanted: true, missing: None });
        assert_eq!(serde_json::to_string(&pong).unwrap(), earlier);
    }

    #[test]
    fn limits_can_be_read_of_a_control_plane_of_an_earlier_version() {
        let earlier = r#"{"cpu_time_ms":null,"output_bytes":5,"open_files":null}"#;

        let limits: BodyLimits = serde_json::from_str(earlier).unwrap();

        assert_eq!((limits.output_bytes, limits.operations), (5, None));
    }

    #[test]
    fn fed_bytes_come_out_as_they_went_in() {
        let bytes: Vec<u8> = (0..=255).collect();
        let feed = Request::Feed { execution: "exe".into(), at: 3, bytes: bytes.clone(), close: true };

        let text = serde_json::to_string(&feed).unwrap();

        let Ok(Request::Feed { bytes: read, .. }) = serde_json::from_str(&text) else { panic!("{text}") };
        assert_eq!(read, bytes);
        let cut = text.replace("000102", "00010");
        assert!(serde_json::from_str::<Request>(&cut).is_err(), "{cut}");
    }
}
