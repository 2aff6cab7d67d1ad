//! Processes of the fake: a command is a few words that say how long it runs and how it ends.

use pinfold_lifecycle::{Cause, Command, Outcome, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) started_at: Timestamp,
    ends: Ends,
    chatty: bool,
    pub(crate) killed_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Ends {
    Never,
    At(Timestamp, Outcome),
}

impl Process {
    /// `true`, `false`, `exit CODE`, `sleep SECONDS`, `work MS CODE` (it prints all the time) and `hang`.
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
            ["hang"] => (Ends::Never, false),
            _ => return Err((Cause::StartFailed, format!("no such command: {words:?}"))),
        };
        Ok(Self { started_at: now, ends, chatty, killed_at: None })
    }

    pub(crate) fn outcome(&self, now: Timestamp) -> Option<Outcome> {
        let by_itself = match &self.ends {
            Ends::At(at, outcome) if *at <= now => Some((*at, outcome.clone())),
            Ends::At(..) | Ends::Never => None,
        };
        match (self.killed_at, by_itself) {
            (Some(killed), Some((ended, outcome))) if ended <= killed => Some(outcome),
            (Some(_), _) => Some(Outcome::ended_for(Cause::Cancelled)),
            (None, by_itself) => by_itself.map(|(_, outcome)| outcome),
        }
    }

    pub(crate) fn last_activity_at(&self, now: Timestamp) -> Timestamp {
        if self.chatty { now } else { self.started_at }
    }
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, (Cause, String)> {
    word.parse().map_err(|_| (Cause::StartFailed, format!("`{word}` is not a number")))
}
