//! The operation limit: operations are executions started, output chunks stored and files served.

use super::Keeper;
use crate::execution::Execution;
use pinfold_keeper_wire::{Ended, EndedBy, Exec, LimitHits, Response};

/// The maximum number of operations. None: unlimited.
struct OperationLimit(Option<u64>);

impl OperationLimit {
    fn covers(&self, operations: u64) -> bool {
        self.0.is_none_or(|most| operations <= most)
    }

    /// Attributes an end to the limit. The output that exceeds it may be read only after the process is gone; the cause
    /// is the same as if it had been read before.
    fn explain(&self, ended: Ended, operations: u64) -> Ended {
        let by = match ended.by {
            EndedBy::Itself if !self.covers(operations) => EndedBy::OperationLimit,
            by => by,
        };
        Ended { by, ..ended }
    }
}

impl Keeper {
    pub(super) fn total_operations(&self) -> u64 {
        let written: u64 = self.running.values().map(Execution::chunks).sum();
        self.operations + self.files.served + written
    }

    fn operation_limit(&self) -> OperationLimit {
        OperationLimit(self.init.limits.operations)
    }

    pub(super) fn has_operation_left(&self) -> bool {
        self.operation_limit().covers(self.total_operations() + 1)
    }

    /// Ends all executions once the limit is exceeded: it applies to the whole sandbox.
    pub(super) fn enforce_operations(&mut self) {
        if self.operation_limit().covers(self.total_operations()) {
            return;
        }
        for execution in self.running.values_mut().filter(|execution| !execution.is_ending()) {
            execution.end(EndedBy::OperationLimit);
        }
    }

    pub(super) fn explain_by_operations(&self, ended: Ended) -> Ended {
        self.operation_limit().explain(ended, self.total_operations())
    }

    pub(super) fn refuse_for_operations(&mut self, exec: &Exec) -> Response {
        let ended =
            Ended { by: EndedBy::OperationLimit, code: None, signal: None, limit_hits: LimitHits::NOTHING };
        self.record_unstarted(exec, ended, "not started: the sandbox has reached its operation limit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operation_limit_explains_only_executions_that_ended_by_themselves() {
        let five = OperationLimit(Some(5));
        let done = Ended { by: EndedBy::Itself, code: Some(0), signal: None, limit_hits: LimitHits::NOTHING };
        let killed = Ended { by: EndedBy::Kill, code: None, signal: Some(9), ..done };

        assert_eq!(five.explain(done, 5), done);
        assert_eq!(five.explain(done, 6), Ended { by: EndedBy::OperationLimit, ..done });
        assert_eq!(five.explain(killed, 6), killed);
        assert_eq!(OperationLimit(None).explain(done, u64::MAX), done);
    }
}
