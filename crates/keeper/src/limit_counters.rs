//! Counters of the limits that the kernel enforces (memory, processes), and whether an execution failed because of one.

use std::fs::File;

use crate::process_tree::{read_small, value_of};
use pinfold_keeper_wire::{EndedBy, LimitHits};

/// The kernel's event files, opened outside the sandbox. Each counts for all executions together.
#[derive(Default)]
pub(crate) struct LimitCounters {
    pub(crate) memory: Option<File>,
    pub(crate) processes: Option<File>,
}

/// Values of the counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LimitCounts {
    memory_kills: u64,
    processes_refused: u64,
}

impl LimitCounters {
    /// Reads the counters. One that cannot be read counts as zero.
    pub(crate) fn read(&self) -> LimitCounts {
        let count = |file: &Option<File>, key: &str| {
            file.as_ref().and_then(|file| value_of(&read_small(file).ok()?, key)).unwrap_or(0)
        };
        LimitCounts {
            memory_kills: count(&self.memory, "oom_kill"),
            processes_refused: count(&self.processes, "max"),
        }
    }
}

impl LimitCounts {
    /// The cause of an execution that ended by itself. A limit is the cause only of a failure: a command that succeeded
    /// has coped with it. The counters do not distinguish concurrent executions, so a failure beside another
    /// execution's limit hit is attributed to that limit too.
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

    /// Limit hits since then that are not the cause of the end.
    pub(crate) fn hits_since(self, since: Self, by: EndedBy) -> LimitHits {
        let grown = |limit, now: u64, then| if by == limit { 0 } else { now.saturating_sub(then) };
        LimitHits {
            memory_limit: grown(EndedBy::MemoryLimit, self.memory_kills, since.memory_kills),
            process_limit: grown(EndedBy::ProcessLimit, self.processes_refused, since.processes_refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASELINE: LimitCounts = LimitCounts { memory_kills: 1, processes_refused: 1 };

    #[test]
    fn a_failure_is_attributed_to_a_limit_hit_since_its_start_and_a_success_to_none() {
        let memory = LimitCounts { memory_kills: 2, ..BASELINE };
        let processes = LimitCounts { processes_refused: 2, ..BASELINE };
        let both = LimitCounts { memory_kills: 2, processes_refused: 2 };

        assert_eq!(BASELINE.cause(BASELINE, false), EndedBy::Itself);
        assert_eq!(both.cause(BASELINE, true), EndedBy::Itself);
        assert_eq!(memory.cause(BASELINE, false), EndedBy::MemoryLimit);
        assert_eq!(processes.cause(BASELINE, false), EndedBy::ProcessLimit);
        assert_eq!(both.cause(BASELINE, false), EndedBy::MemoryLimit);
    }

    #[test]
    fn limit_hits_other_than_the_cause_are_counted() {
        let both = LimitCounts { memory_kills: 4, processes_refused: 2 };

        assert_eq!(BASELINE.hits_since(BASELINE, EndedBy::Itself), LimitHits::NOTHING);
        assert_eq!(
            both.hits_since(BASELINE, EndedBy::Itself),
            LimitHits { memory_limit: 3, process_limit: 1 }
        );
        assert_eq!(
            both.hits_since(BASELINE, EndedBy::MemoryLimit),
            LimitHits { memory_limit: 0, process_limit: 1 }
        );
        assert_eq!(
            both.hits_since(BASELINE, EndedBy::TimeLimit),
            LimitHits { memory_limit: 3, process_limit: 1 }
        );
    }
}
