//! A small shell for the fake: enough for scripts of tests, driven by the fake's clock. A process is a set of threads
//! of control, each a stack of tasks that runs until it must wait, so that its state can be stored between calls.
//!
//! It knows what those scripts use. Any other command ends with code 127 and a message, as in a real shell.

mod expand;
mod parse;
mod programs;
mod run;
mod streams;
mod syntax;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use pinfold_lifecycle::Timestamp;
use serde::{Deserialize, Serialize};

pub(crate) use run::{Activity, Thread, Wait};
pub(crate) use syntax::{Node, Stream};

use super::file_tree::FileTree;

/// The standard input of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub(crate) struct Input {
    /// Bytes accepted in total.
    pub(crate) accepted: u64,
    pub(crate) unread: VecDeque<u8>,
    pub(crate) closed: bool,
}

/// Output of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) at: Timestamp,
    pub(crate) stream: Stream,
    pub(crate) bytes: Vec<u8>,
}

/// What the threads of a process share while one of them runs.
pub(crate) struct Shared<'a> {
    pub(crate) files: &'a mut FileTree,
    pub(crate) input: Option<&'a mut Input>,
    /// Columns and rows of the terminal.
    pub(crate) terminal: Option<(u16, u16)>,
    pub(crate) written: Vec<Written>,
    /// Threads for commands in the background.
    pub(crate) spawned: Vec<Thread>,
    /// A signal that the process sent to itself.
    pub(crate) raised: Option<i32>,
}

impl Shared<'_> {
    fn write(&mut self, at: Timestamp, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let written = if self.terminal.is_some() {
            Written { at, stream: Stream::Stdout, bytes: to_terminal(bytes) }
        } else {
            Written { at, stream, bytes: bytes.to_vec() }
        };
        self.written.push(written);
    }
}

/// A terminal begins a new line with a carriage return.
pub(crate) fn to_terminal(bytes: &[u8]) -> Vec<u8> {
    bytes.split_inclusive(|byte| *byte == b'\n').fold(Vec::new(), |mut shown, line| {
        match line.strip_suffix(b"\n") {
            Some(line) => shown.extend([line, b"\r\n"].concat()),
            None => shown.extend(line),
        }
        shown
    })
}
