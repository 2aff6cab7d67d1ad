//! Processes of the fake. A command is a few words that say how long it runs and how it ends.

use pinfold_lifecycle::{Cause, Command, Outcome, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{ResizeError, SignalError, StdinError, StdinWrite, WriteResult};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) started_at: Timestamp,
    ends: Ends,
    chatty: bool,
    /// Uses the CPU all the time.
    busy: bool,
    /// Waits for a CPU all the time.
    starved: bool,
    pub(crate) killed_at: Option<Timestamp>,
    /// The first fatal signal, and its time.
    signalled: Option<(Timestamp, i32)>,
    input: Option<Input>,
    terminal: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
struct Input {
    accepted: u64,
    closed_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Ends {
    Never,
    At(Timestamp, Outcome),
    WithItsInput,
}

/// Signals that end a program without a handler: HUP, INT, QUIT, KILL, TERM.
const ENDING: [i32; 5] = [1, 2, 3, 9, 15];

impl Process {
    /// Commands: `true`, `false`, `exit CODE`, `sleep SECONDS`, `work MS CODE` (prints all the time), `compute`
    /// (forever, silent), `starve` (like `compute`, but never gets a CPU), `hang`, and `cat` (until its stdin
    /// is closed).
    pub(crate) fn start(command: &Command, now: Timestamp) -> Result<Self, (Cause, String)> {
        let words: Vec<_> = command.argv.iter().map(String::as_str).collect();
        let (ends, chatty) = match words.as_slice() {
            ["true"] => (Ends::At(now, Outcome::exited(0)), false),
            ["false"] => (Ends::At(now, Outcome::exited(1)), false),
            ["exit", code] => (Ends::At(now, Outcome::exited(number(code)?)), false),
            ["sleep", seconds] => {
                (Ends::At(now.after_ms(number::<u64>(seconds)? * 1_000), Outcome::exited(0)), false)
            }
            ["work", ms, code] => (Ends::At(now.after_ms(number(ms)?), Outcome::exited(number(code)?)), true),
            ["hang"] | ["compute"] | ["starve"] => (Ends::Never, false),
            ["cat"] => (Ends::WithItsInput, false),
            _ => return Err((Cause::StartFailed, format!("no such command: {words:?}"))),
        };
        // Without stdin there is nothing to read, so it ends at once.
        let ends = match ends {
            Ends::WithItsInput if !command.stdin && !command.tty => Ends::At(now, Outcome::exited(0)),
            ends => ends,
        };
        Ok(Self {
            started_at: now,
            ends,
            chatty,
            busy: chatty || words == ["compute"],
            starved: words == ["starve"],
            killed_at: None,
            signalled: None,
            input: (command.stdin || command.tty).then(Input::default),
            terminal: command.tty,
        })
    }

    pub(crate) fn signal(&mut self, signal: i32, now: Timestamp) -> Result<(), SignalError> {
        if !(1..=64).contains(&signal) {
            return Err(SignalError::NoSuchSignal { signal });
        }
        if self.outcome(now).is_some() {
            return Err(SignalError::NotRunning);
        }
        if ENDING.contains(&signal) {
            self.signalled.get_or_insert((now, signal));
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, write: StdinWrite<'_>, now: Timestamp) -> Result<WriteResult, StdinError> {
        if self.outcome(now).is_some() {
            return Err(StdinError::NotRunning);
        }
        let input = self.input.as_mut().ok_or(StdinError::NoInput)?;
        let end = write.at.saturating_add(write.bytes.len() as u64);
        if input.closed_at.is_none() && write.at <= input.accepted {
            input.accepted = input.accepted.max(end);
            if write.close && input.accepted == end {
                input.closed_at = Some(now);
            }
        }
        Ok(WriteResult { accepted: input.accepted, closed: input.closed_at.is_some() })
    }

    pub(crate) fn resize(&self, now: Timestamp) -> Result<(), ResizeError> {
        if self.outcome(now).is_some() {
            Err(ResizeError::NotRunning)
        } else if self.terminal {
            Ok(())
        } else {
            Err(ResizeError::NoTerminal)
        }
    }

    pub(crate) fn outcome(&self, now: Timestamp) -> Option<Outcome> {
        let by_itself = match &self.ends {
            Ends::At(at, outcome) if *at <= now => Some((*at, outcome.clone())),
            Ends::WithItsInput => self.input.and_then(|input| Some((input.closed_at?, Outcome::exited(0)))),
            Ends::At(..) | Ends::Never => None,
        };
        let by_signal = self.signalled.map(|(at, signal)| (at, Outcome::exited(128 + signal)));
        let by_itself = [by_itself, by_signal].into_iter().flatten().min_by_key(|(at, _)| *at);
        match (self.killed_at, by_itself) {
            (Some(killed), Some((ended, outcome))) if ended <= killed => Some(outcome),
            (Some(_), _) => Some(Outcome::ended_for(Cause::Cancelled)),
            (None, by_itself) => by_itself.map(|(_, outcome)| outcome),
        }
    }

    pub(crate) fn cpu_ms(&self, now: Timestamp) -> u64 {
        if self.busy && self.outcome(now).is_none() { now.ms_since(self.started_at) } else { 0 }
    }

    pub(crate) fn is_starved(&self, now: Timestamp) -> bool {
        self.starved && self.outcome(now).is_none()
    }

    pub(crate) fn last_activity_at(&self, now: Timestamp) -> Timestamp {
        if self.chatty { now } else { self.started_at }
    }
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, (Cause, String)> {
    word.parse().map_err(|_| (Cause::StartFailed, format!("`{word}` is not a number")))
}
