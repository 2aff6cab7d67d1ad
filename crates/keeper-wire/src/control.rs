//! Requests to a keeper, and its responses.

use std::collections::BTreeMap;

use pinfold_output_log::LogPosition;
use serde::{Deserialize, Serialize};

use crate::files::FileRequest;
use crate::usage::{DiskUsage, ProcessUsage};

/// A request of the control plane to a keeper.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Confirms the launch: the control plane has recorded the sandbox, and executions may start.
    Confirm,
    Ping {
        nonce: String,
    },
    /// Exercises the sandbox end to end: mounts, a file written and read, a program that exits. Answered when it is done
    /// or when the time is up.
    Probe {
        nonce: String,
        within_ms: u64,
    },
    Exec(Box<Exec>),
    /// Answered when the execution has ended.
    Wait {
        execution: String,
    },
    Kill {
        execution: String,
    },
    /// Signals the process group of the execution's first process.
    Signal {
        execution: String,
        signal: i32,
    },
    /// Writes to the execution's standard input. `at`: offset of the first byte; bytes that were accepted before are
    /// skipped, so the request may be repeated. `close`: the input ends after these bytes.
    WriteInput {
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
    /// Count of operations, and time since the last one.
    Activity,
    /// Usage of the sandbox's storage, memory and CPU.
    Usage,
    /// Sets the deadline at which the keeper ends the sandbox by itself, in milliseconds from now.
    KeepAlive {
        left_ms: u64,
    },
    /// SIGTERM to everything inside.
    Terminate,
    /// Answered by a child of the keeper with messages of [`crate::files`].
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
    /// Where its output continues, if an earlier instance ran it before.
    #[serde(default)]
    pub output: LogPosition,
}

/// Standard streams of an execution. Output is logged in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Console {
    /// Standard input is /dev/null.
    NoInput,
    /// Standard input is a pipe.
    Piped,
    /// A pseudo-terminal.
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
    /// The request's nonce, the secret that only this keeper knows, and whether the launch was confirmed. `missing`: the
    /// first of the sandbox's mounts that is gone.
    Pong {
        nonce: String,
        secret: String,
        confirmed: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<String>,
    },
    /// The same proof of identity, and what failed, if anything.
    Probed {
        nonce: String,
        secret: String,
        confirmed: bool,
        failed: Option<ProbeFailure>,
    },
    Executions(Vec<ExecutionStatus>),
    /// `disk` is None if it could not be measured; `process_usage` is None where cgroups count usage.
    Usage {
        disk: Option<DiskUsage>,
        process_usage: Option<ProcessUsage>,
    },
    Ended(Ended),
    /// Total bytes accepted, and whether the input is closed.
    InputAccepted {
        accepted: u64,
        closed: bool,
    },
    /// Executions started, output chunks stored and files served since the keeper's start; and time since the last one.
    Activity {
        operations: u64,
        idle_ms: u64,
    },
    /// The request was refused and had no effect.
    Refused {
        reason: RefusalReason,
        why: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    NotConfirmed,
    NoSuchExecution,
    WasKilled,
    NotFound,
    NotExecutable,
    /// The execution has ended.
    NotRunning,
    /// The execution was started without the stream it needs: an input, a terminal.
    NotAttached,
    NoSuchSignal,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeFailure {
    Files(String),
    Exec(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionStatus {
    pub execution: String,
    /// Time since its last output.
    pub idle_ms: u64,
    pub ended: Option<Ended>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub by: EndedBy,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Absent from keepers of earlier versions.
    #[serde(default, skip_serializing_if = "LimitHits::is_nothing")]
    pub limit_hits: LimitHits,
}

/// How often all executions together hit limits while this one ran, except the limit that ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct LimitHits {
    pub memory_limit: u64,
    pub process_limit: u64,
}

impl LimitHits {
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
    /// The sandbox exceeded its operation limit. Without code and signal: the execution was not started.
    OperationLimit,
    MemoryLimit,
    CpuLimit,
    /// A fork failed at the process limit, and the execution failed.
    ProcessLimit,
    /// The execution failed while the storage was full.
    DiskLimit,
}

/// Serialises bytes as hexadecimal text.
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
        bytes.ok_or_else(|| D::Error::custom("not hexadecimal bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InstanceLimits;

    #[test]
    fn an_end_without_limit_hits_of_an_earlier_keeper_is_parsed() {
        let earlier = r#"{"by":"itself","code":0,"signal":null}"#;

        let ended: Ended = serde_json::from_str(earlier).unwrap();

        assert_eq!(ended.limit_hits, LimitHits::NOTHING);
        assert_eq!(serde_json::to_string(&ended).unwrap(), earlier);
    }

    #[test]
    fn a_pong_without_missing_mounts_of_an_earlier_keeper_is_parsed() {
        let earlier = r#"{"pong":{"nonce":"n","secret":"s","confirmed":true}}"#;

        let pong: Response = serde_json::from_str(earlier).unwrap();

        let (nonce, secret) = ("n".to_owned(), "s".to_owned());
        assert_eq!(pong, Response::Pong { nonce, secret, confirmed: true, missing: None });
        assert_eq!(serde_json::to_string(&pong).unwrap(), earlier);
    }

    #[test]
    fn limits_without_operations_of_an_earlier_control_plane_are_parsed() {
        let earlier = r#"{"cpu_time_ms":null,"output_bytes":5,"open_files":null}"#;

        let limits: InstanceLimits = serde_json::from_str(earlier).unwrap();

        assert_eq!((limits.output_bytes, limits.operations), (5, None));
    }

    #[test]
    fn input_bytes_survive_serialisation() {
        let bytes: Vec<u8> = (0..=255).collect();
        let feed = Request::WriteInput { execution: "exe".into(), at: 3, bytes: bytes.clone(), close: true };

        let text = serde_json::to_string(&feed).unwrap();

        let Ok(Request::WriteInput { bytes: read, .. }) = serde_json::from_str(&text) else {
            panic!("{text}")
        };
        assert_eq!(read, bytes);
        let cut = text.replace("000102", "00010");
        assert!(serde_json::from_str::<Request>(&cut).is_err(), "{cut}");
    }
}
