//! Files of executions: input files are written before the process starts, and artifacts are collected after it has
//! ended. An execution without files skips both steps.

use crate::transition::TransitionBuilder;
use crate::{Cause, ExecutionId, ExecutionState, Fact, Fence, Guard, Outcome, PendingEffect};

/// Part of an execution's own time that is left for reporting its end.
const REPORT_MS: u64 = 1_000;

impl TransitionBuilder<'_> {
    /// The input files are in place: the process is started, by the same deadline.
    pub(crate) fn files_put(&mut self, fence: Fence, id: ExecutionId) {
        match self.find(id).map(|execution| execution.state.clone()) {
            Some(ExecutionState::Preparing { pending }) if self.awaits(&pending, fence) => {
                let pending = self.begin_effect_until(pending.deadline);
                self.set_state(id, ExecutionState::Starting { pending });
                self.record(Fact::FilesPut { execution: id });
            }
            Some(_) | None => self.record_late(fence, "files put"),
        }
    }

    /// The process ended by itself. Collecting must not take longer than the execution was allowed to.
    pub(crate) fn process_exited(&mut self, id: ExecutionId, watch: PendingEffect, outcome: Outcome) {
        let left_ms = watch.deadline.ms_since(self.now).saturating_sub(REPORT_MS);
        let least_ms = self.policy.collect_after_kill_ms;
        self.process_gone(id, outcome, left_ms.max(least_ms).min(self.policy.collect_ms));
    }

    /// The process was killed. The requester is waiting, so its artifacts get little time.
    pub(crate) fn process_killed(&mut self, id: ExecutionId, outcome: Outcome) {
        self.process_gone(id, outcome, self.policy.collect_after_kill_ms);
    }

    /// The process is gone and the outcome is decided. The execution ends now, or once its artifacts are collected.
    fn process_gone(&mut self, id: ExecutionId, outcome: Outcome, collect_ms: u64) {
        if !self.find(id).is_some_and(|execution| execution.transfers.artifacts) || self.live().is_none() {
            return self.finish_execution(id, outcome);
        }
        let pending = self.begin_effect_for(collect_ms);
        self.set_state(id, ExecutionState::Collecting { outcome, pending });
        self.record(Fact::ExecutionCollecting { execution: id });
    }

    pub(crate) fn collected(&mut self, fence: Fence, id: ExecutionId) {
        match self.find(id).map(|execution| execution.state.clone()) {
            Some(ExecutionState::Collecting { outcome, pending }) if self.awaits(&pending, fence) => {
                self.finish_execution(id, outcome);
            }
            Some(_) | None => self.record_late(fence, "collected"),
        }
    }

    /// The instance failed or is being stopped: collecting ends with it. Every execution keeps the outcome that was
    /// decided when its process ended. Returns the cause of a one-shot sandbox's end, if this was its last execution.
    pub(crate) fn finish_collecting(&mut self) -> Option<Cause> {
        if !self.holds(Guard::CollectingKeepsOutcome) {
            return None;
        }
        let is_collecting = |state: &ExecutionState| matches!(state, ExecutionState::Collecting { .. });
        let collecting: Vec<_> =
            self.sandbox.executions.extract_if(.., |execution| is_collecting(&execution.state)).collect();
        if collecting.is_empty() {
            return None;
        }
        for execution in collecting {
            if let ExecutionState::Collecting { outcome, .. } = &execution.state {
                let outcome = outcome.clone();
                self.record_end(execution, outcome);
            }
        }
        self.last_execution_cause()
    }

    fn set_state(&mut self, id: ExecutionId, state: ExecutionState) {
        if let Some(execution) = self.find(id) {
            execution.state = state;
        }
    }
}
