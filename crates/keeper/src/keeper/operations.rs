//! The steps that a keeper can see, and how many of them its sandbox may take.

use super::Keeper;
use crate::execution::Execution;
use crate::wire::{Ended, EndedBy, Exec, Response, Survived};

/// None: as many as it likes.
struct Allowance(Option<u64>);

impl Allowance {
    fn covers(&self, operations: u64) -> bool {
        self.0.is_none_or(|most| operations <= most)
    }

    /// What was too much may be read only when its process is gone. The cause is the same as if it was read before.
    fn explain(&self, ended: Ended, operations: u64) -> Ended {
        let by = match ended.by {
            EndedBy::Itself if !self.covers(operations) => EndedBy::OperationLimit,
            by => by,
        };
        Ended { by, ..ended }
    }
}

impl Keeper {
    pub(super) fn all_operations(&self) -> u64 {
        let written: u64 = self.running.values().map(Execution::pieces).sum();
        self.operations + self.files.served + written
    }

    fn allowance(&self) -> Allowance {
        Allowance(self.inheritance.limits.operations)
    }

    pub(super) fn may_do_one_more(&self) -> bool {
        self.allowance().covers(self.all_operations() + 1)
    }

    /// The number is the sandbox's own, so that whatever runs ends, whoever took the last step.
    pub(super) fn enforce_operations(&mut self) {
        if self.allowance().covers(self.all_operations()) {
            return;
        }
        for execution in self.running.values_mut().filter(|execution| !execution.is_ending()) {
            execution.end(EndedBy::OperationLimit);
        }
    }

    pub(super) fn explain_by_operations(&self, ended: Ended) -> Ended {
        self.allowance().explain(ended, self.all_operations())
    }

    pub(super) fn ended_for_operations(&mut self, exec: &Exec) -> Response {
        let ended =
            Ended { by: EndedBy::OperationLimit, code: None, signal: None, survived: Survived::NOTHING };
        self.ended_before_it_began(exec, ended, "not started: the sandbox has used up its operations")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_operations_explain_what_has_ended_by_itself_and_nothing_else() {
        let five = Allowance(Some(5));
        let done = Ended { by: EndedBy::Itself, code: Some(0), signal: None, survived: Survived::NOTHING };
        let killed = Ended { by: EndedBy::Kill, code: None, signal: Some(9), ..done };

        assert_eq!(five.explain(done, 5), done);
        assert_eq!(five.explain(done, 6), Ended { by: EndedBy::OperationLimit, ..done });
        assert_eq!(five.explain(killed, 6), killed);
        assert_eq!(Allowance(None).explain(done, u64::MAX), done);
    }
}
