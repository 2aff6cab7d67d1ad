//! Limits that the kernel holds by itself: how often the work ran into each, and whether an execution failed of it.

use std::fs::File;

use crate::tree::{keyed, read_small};
use crate::wire::{EndedBy, Survived};

/// The kernel's counters, opened outside. Each is of all executions together.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) memory: Option<File>,
    pub(crate) processes: Option<File>,
}

/// What they said at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Breaches {
    memory_kills: u64,
    processes_refused: u64,
}

impl Counters {
    /// What cannot be read has not grown.
    pub(crate) fn read(&self) -> Breaches {
        let count = |file: &Option<File>, key: &str| {
            file.as_ref().and_then(|file| keyed(&read_small(file).ok()?, key)).unwrap_or(0)
        };
        Breaches {
            memory_kills: count(&self.memory, "oom_kill"),
            processes_refused: count(&self.processes, "max"),
        }
    }
}

impl Breaches {
    /// Why an execution that nobody ended has ended so. A limit is the cause of a failure only: what succeeds has
    /// coped with it. The counters do not tell executions side by side apart, so that one which fails beside
    /// another's breach is blamed on it too.
    pub(crate) fn cause(self, since: Self, succeeded: bool) -> EndedBy {
        if succeeded {
            EndedBy::Itself
        } else if self.memory_kills > since.memory_kills {
            EndedBy::MemoryLimit
        } else if self.processes_refused > since.processes_refused {
            EndedBy::ProcessLimit
        } else {
            EndedBy::Itself
        }
    }

    /// What was breached since then and is not why it has ended.
    pub(crate) fn survived(self, since: Self, by: EndedBy) -> Survived {
        let grown = |limit, now: u64, then| if by == limit { 0 } else { now.saturating_sub(then) };
        Survived {
            memory_limit: grown(EndedBy::MemoryLimit, self.memory_kills, since.memory_kills),
            process_limit: grown(EndedBy::ProcessLimit, self.processes_refused, since.processes_refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Breaches = Breaches { memory_kills: 1, processes_refused: 1 };

    #[test]
    fn a_failure_is_blamed_on_what_was_breached_since_it_began_and_a_success_on_nothing() {
        let memory = Breaches { memory_kills: 2, ..CALM };
        let processes = Breaches { processes_refused: 2, ..CALM };
        let both = Breaches { memory_kills: 2, processes_refused: 2 };

        assert_eq!(CALM.cause(CALM, false), EndedBy::Itself);
        assert_eq!(both.cause(CALM, true), EndedBy::Itself);
        assert_eq!(memory.cause(CALM, false), EndedBy::MemoryLimit);
        assert_eq!(processes.cause(CALM, false), EndedBy::ProcessLimit);
        assert_eq!(both.cause(CALM, false), EndedBy::MemoryLimit);
    }

    #[test]
    fn what_it_has_not_ended_for_was_survived() {
        let both = Breaches { memory_kills: 4, processes_refused: 2 };

        assert_eq!(CALM.survived(CALM, EndedBy::Itself), Survived::NOTHING);
        assert_eq!(both.survived(CALM, EndedBy::Itself), Survived { memory_limit: 3, process_limit: 1 });
        assert_eq!(both.survived(CALM, EndedBy::MemoryLimit), Survived { memory_limit: 0, process_limit: 1 });
        assert_eq!(both.survived(CALM, EndedBy::TimeLimit), Survived { memory_limit: 3, process_limit: 1 });
    }
}
