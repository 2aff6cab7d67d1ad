//! Transitions of executions: queue, start, watch and end.

use crate::transition::TransitionBuilder;
use crate::{
    Cause, Execution, ExecutionId, ExecutionKind, ExecutionLimits, ExecutionState, Fact, Fence,
    FileTransfers, Guard, Life, Live, Outcome, Refusal,
};

impl TransitionBuilder<'_> {
    pub(crate) fn queue_execution(
        &mut self,
        id: ExecutionId,
        kind: ExecutionKind,
        limits: ExecutionLimits,
        transfers: FileTransfers,
        may_queue: bool,
    ) -> Result<(), Refusal> {
        if self.sandbox.executions.iter().any(|known| known.id == id) {
            return Ok(());
        }
        let (running, capacity) = match kind {
            ExecutionKind::Run if may_queue => {
                (self.count(kind), self.policy.max_concurrent.saturating_add(self.policy.queue_length))
            }
            ExecutionKind::Run => (self.count(kind), self.policy.max_concurrent),
            ExecutionKind::Job => (self.count(kind), self.policy.jobs),
        };
        if running >= capacity {
            return Err(Refusal::Busy { running, capacity });
        }
        let state = ExecutionState::Queued { start_by: self.queued_until() };
        let asked_at = self.now;
        self.sandbox.executions.push(Execution {
            id,
            kind,
            limits,
            transfers,
            requested_at: asked_at,
            state,
            attempts: Vec::new(),
        });
        self.record(Fact::ExecutionQueued { execution: id });
        Ok(())
    }

    fn count(&self, kind: ExecutionKind) -> u32 {
        let of_kind = self.sandbox.executions.iter().filter(|execution| execution.kind == kind);
        u32::try_from(of_kind.count()).unwrap_or(u32::MAX)
    }

    pub(crate) fn find(&mut self, id: ExecutionId) -> Option<&mut Execution> {
        self.sandbox.executions.iter_mut().find(|execution| execution.id == id)
    }

    /// Runs at the end of every transition: starts queued executions that have a slot, updates the idle deadline, and
    /// ends a one-shot sandbox after its last execution.
    pub(crate) fn advance_executions(&mut self) {
        if !matches!(self.sandbox.life, Life::Wanted) {
            return;
        }
        if let Some(cause) = self.last_execution_cause() {
            return self.end(cause, false);
        }
        let blocks = |live: &Live| live.extension.is_some_and(|extension| extension.blocks_executions);
        if self.live().is_some_and(|live| !blocks(live)) {
            self.start_queued();
        }
        // A pooled instance is idle by design.
        let idle_ms = self.policy.idle_ms.filter(|_| self.sandbox.pooled.is_none());
        let idle_from_now = idle_ms.map(|ms| self.now.after_ms(ms));
        let empty = self.sandbox.executions.is_empty();
        if let Some(live) = self.live() {
            live.idle_by = if empty { live.idle_by.or(idle_from_now) } else { None };
        }
    }

    /// The cause of the last execution of a one-shot sandbox, if it ended in this transition.
    pub(crate) fn last_execution_cause(&self) -> Option<Cause> {
        let last = self.finished.last().and_then(Execution::outcome)?;
        (self.policy.one_shot && self.sandbox.executions.is_empty()).then_some(last.cause)
    }

    fn start_queued(&mut self) {
        let runs =
            self.sandbox.executions.iter().filter(|e| e.kind == ExecutionKind::Run && e.is_on_instance());
        let mut running = u32::try_from(runs.count()).unwrap_or(u32::MAX);
        for index in 0..self.sandbox.executions.len() {
            let Execution { kind, state: ExecutionState::Queued { start_by }, .. } =
                self.sandbox.executions[index]
            else {
                continue;
            };
            if kind == ExecutionKind::Run {
                if running >= self.policy.max_concurrent {
                    continue;
                }
                running += 1;
            }
            let pending = self.begin_effect_until(start_by);
            let execution = &mut self.sandbox.executions[index];
            execution.state = if execution.transfers.input {
                ExecutionState::Preparing { pending }
            } else {
                ExecutionState::Starting { pending }
            };
        }
    }

    pub(crate) fn execution_started(&mut self, fence: Fence, id: ExecutionId) {
        let expires_at = self.sandbox.expires_at;
        let Some(Execution { state: ExecutionState::Starting { pending }, limits, .. }) = self.find(id)
        else {
            return self.record_late(fence, "execution started");
        };
        let (pending, limits) = (*pending, *limits);
        if !self.awaits(&pending, fence) {
            return self.record_late(fence, "execution started");
        }
        let deadline = limits.timeout_ms.map_or(expires_at, |ms| self.now.after_ms(ms).min(expires_at));
        let quiet_by = limits.inactivity_ms.map(|ms| self.now.after_ms(ms));
        let (started_at, watch) = (self.now, self.begin_effect_until(deadline));
        if let Some(index) = self.sandbox.executions.iter().position(|execution| execution.id == id) {
            self.sandbox.executions[index].state = ExecutionState::Running { started_at, quiet_by, watch };
            self.record_attempt_start(index);
        }
        self.record(Fact::ExecutionStarted { execution: id });
        if self.live().and_then(|live| live.accept_by.take()).is_some() {
            self.record(Fact::WorkAccepted { healed: false });
        }
    }

    pub(crate) fn execution_refused(&mut self, fence: Fence, id: ExecutionId, outcome: Outcome) {
        match self.find(id).map(|execution| execution.state.clone()) {
            Some(ExecutionState::Preparing { pending } | ExecutionState::Starting { pending })
                if self.awaits(&pending, fence) =>
            {
                if self.may_retry(outcome.cause) {
                    self.instance_failed(outcome.cause, outcome.detail.unwrap_or_default());
                } else {
                    self.finish_execution(id, outcome);
                    self.probe_after_failure();
                }
            }
            Some(_) | None => self.record_late(fence, "execution refused"),
        }
    }

    pub(crate) fn execution_ended(&mut self, fence: Fence, id: ExecutionId, outcome: Outcome) {
        match self.find(id).map(|execution| execution.state.clone()) {
            Some(ExecutionState::Running { watch, .. }) if self.awaits(&watch, fence) => {
                if !self.holds(Guard::ReportedOutcomeIsFinal) && self.may_retry(Cause::Lost) {
                    return self.instance_failed(Cause::Lost, String::new());
                }
                self.process_exited(id, watch, outcome);
            }
            // The outcome was decided earlier. This event only proves that the process is gone.
            Some(ExecutionState::Ending { outcome: decided, kill: Some(_) }) if self.is_first_attempt(id) => {
                let holds = self.holds(Guard::OutcomeWrittenOnce);
                self.process_killed(id, if holds { decided } else { outcome });
            }
            Some(_) | None => self.record_late(fence, "execution ended"),
        }
    }

    /// Whether all attempts of this execution belong to the current generation, so that the event cannot come from an
    /// earlier instance.
    fn is_first_attempt(&self, id: ExecutionId) -> bool {
        let own = self.sandbox.generation();
        if !self.holds(Guard::EndsBelongToTheirAttempt) {
            return true;
        }
        let execution = self.sandbox.executions.iter().find(|execution| execution.id == id);
        execution.is_some_and(|execution| execution.attempts.iter().all(|attempt| attempt.generation == own))
    }

    pub(crate) fn execution_gone(&mut self, fence: Fence, id: ExecutionId) {
        match self.find(id).map(|execution| execution.state.clone()) {
            Some(ExecutionState::Ending { outcome, kill: Some(pending) }) if self.awaits(&pending, fence) => {
                self.process_killed(id, outcome);
            }
            Some(_) | None => self.record_late(fence, "execution gone"),
        }
    }

    /// Decides the outcome of one execution. Without a process it ends at once; otherwise its process is killed first.
    pub(crate) fn end_execution(&mut self, id: ExecutionId, outcome: Outcome) {
        match self.find(id).map(|execution| execution.state.clone()) {
            Some(ExecutionState::Queued { .. } | ExecutionState::Preparing { .. }) => {
                self.finish_execution(id, outcome)
            }
            Some(ExecutionState::Starting { .. } | ExecutionState::Running { .. }) => {
                let kill = Some(self.begin_effect_for(self.policy.kill_ms));
                let cause = outcome.cause;
                if let Some(execution) = self.find(id) {
                    execution.state = ExecutionState::Ending { outcome, kill };
                }
                self.record(Fact::ExecutionEnding { execution: id, cause });
            }
            // The instance is already being stopped.
            Some(ExecutionState::Interrupted) => {
                let cause = outcome.cause;
                if let Some(execution) = self.find(id) {
                    execution.state = ExecutionState::Ending { outcome, kill: None };
                }
                self.record(Fact::ExecutionEnding { execution: id, cause });
            }
            // The outcome is decided.
            Some(
                ExecutionState::Ending { .. }
                | ExecutionState::Collecting { .. }
                | ExecutionState::Ended { .. },
            )
            | None => {}
        }
    }

    /// Ends all executions with their sandbox: those without a process now, the others when the instance is proven
    /// gone.
    pub(crate) fn end_every_execution(&mut self, outcome: &Outcome) {
        self.finish_collecting();
        let waiting: Vec<_> = self.sandbox.executions.extract_if(.., |e| !e.may_have_process()).collect();
        for execution in waiting {
            self.record_end(execution, outcome.clone());
        }
        self.end_running_executions(outcome);
    }

    /// Marks running executions as ending with their instance.
    pub(crate) fn end_running_executions(&mut self, outcome: &Outcome) {
        self.finish_collecting();
        for execution in &mut self.sandbox.executions {
            match &mut execution.state {
                ExecutionState::Preparing { .. }
                | ExecutionState::Starting { .. }
                | ExecutionState::Running { .. }
                | ExecutionState::Interrupted
                | ExecutionState::Collecting { .. } => {
                    execution.state = ExecutionState::Ending { outcome: outcome.clone(), kill: None };
                }
                ExecutionState::Ending { kill, .. } => *kill = None,
                ExecutionState::Queued { .. } | ExecutionState::Ended { .. } => {}
            }
        }
    }

    pub(crate) fn finish_execution(&mut self, id: ExecutionId, outcome: Outcome) {
        if let Some(index) = self.sandbox.executions.iter().position(|execution| execution.id == id) {
            let execution = self.sandbox.executions.remove(index);
            self.record_end(execution, outcome);
        }
    }

    pub(crate) fn record_end(&mut self, mut execution: Execution, outcome: Outcome) {
        let outcome = outcome.normalized();
        if matches!(outcome.cause, Cause::TimeLimit | Cause::Inactivity) {
            self.sandbox.timeouts = self.sandbox.timeouts.saturating_add(1);
        }
        self.record_attempt_end(&mut execution, &outcome);
        self.record(Fact::ExecutionEnded { execution: execution.id, outcome: outcome.clone() });
        let state = ExecutionState::Ended { outcome, at: self.now };
        self.finished.push(Execution { state, ..execution });
    }
}
