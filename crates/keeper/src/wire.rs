//! What is said over a keeper's control socket and to the nursery: one length and one JSON text for each message.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

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
    /// Run a command and make a round trip through a file, inside.
    Probe {
        path: String,
    },
    Exec(Box<Exec>),
    /// Answered when it has ended.
    Wait {
        execution: String,
    },
    Kill {
        execution: String,
    },
    List,
    /// When the keeper ends everything by itself, in milliseconds from now.
    KeepAlive {
        left_ms: u64,
    },
    /// SIGTERM to everything inside.
    Terminate,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Exec {
    pub execution: String,
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub workdir: String,
    pub timeout_ms: Option<u64>,
    pub inactivity_ms: Option<u64>,
    pub output_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    Done,
    /// The nonce that was asked with, the secret that only this keeper was born with, and whether it was told to go.
    Pong {
        nonce: String,
        secret: String,
        wanted: bool,
    },
    Executions(Vec<Execution>),
    Ended(Ended),
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
    Failed,
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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    Itself,
    Kill,
    TimeLimit,
    Inactivity,
    OutputLimit,
}

/// What is asked of the nursery. File descriptors come with it, in this order: the control socket to listen on,
/// the directory for output, and the groups to join.
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
    pub left_ms: u64,
    /// The sandbox belongs to whoever asked for it, and ends when that process is gone.
    pub ends_with_caller: bool,
    /// Guards that this one does without.
    #[cfg(feature = "weakened")]
    pub weaknesses: Vec<crate::weakness::Weakness>,
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
    let text = serde_json::to_vec(message)?;
    let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut frame = Vec::with_capacity(text.len() + 4);
    frame.extend(length.to_le_bytes());
    frame.extend(text);
    stream.write_all(&frame)
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
