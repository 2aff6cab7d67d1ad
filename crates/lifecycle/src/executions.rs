//! How executions are queued, started, watched and ended within their sandbox.

use crate::turn::Turn;
use crate::{
    Cause, Execution, ExecutionId, ExecutionKind, ExecutionLimits, ExecutionState, Fact, Fence, Guard, Life,
    Live, Outcome, Refusal,
};

impl Turn<'_> {
    pub(crate) fn ask_execution(
        &mut self,
        id: ExecutionId,
        kind: ExecutionKind,
        limits: ExecutionLimits,
        may_queue: bool,
    ) -> Result<(), Refusal> {
        if self.sandbox.executions.iter().any(|known| known.id == id) {
            return Ok(());
        }
        let (known, places) = match kind {
            ExecutionKind::Run if may_queue => {
                (self.count(kind), self.policy.side_by_side.saturating_add(self.policy.queue_length))
            }
            ExecutionKind::Run => (self.count(kind), self.policy.side_by_side),
            ExecutionKind::Job => (self.count(kind), self.policy.jobs),
        };
        if known >= places {
            return Err(Refusal::Busy { running: known, places });
        }
        let state = ExecutionState::Queued { start_by: self.queued_until() };
        let asked_at = self.now;
        self.sandbox.executions.push(Execution { id, kind, limits, asked_at, state, attempts: Vec::new() });
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

    /// After every turn: starts what has room, begins or ends the wait for idleness, ends a one-shot sandbox
    /// with its last execution.
    pub(crate) fn tend_executions(&mut self) {
        if !matches!(self.sandbox.life, Life::Wanted) {
            return;
        }
        if let Some(cause) = self.last_work_ended() {
            return self.end(cause, false);
        }
        let holds_work = |live: &Live| live.extension.is_some_and(|extension| extension.holds_work);
        if self.live().is_some_and(|live| !holds_work(live)) {
            self.start_queued();
        }
        // Waiting is what a body in the pool is for.
        let idle_ms = self.policy.idle_ms.filter(|_| self.sandbox.pooled.is_none());
        let idle_from_now = idle_ms.map(|ms| self.now.after_ms(ms));
        let empty = self.sandbox.executions.is_empty();
        if let Some(live) = self.live() {
            live.idle_by = if empty { live.idle_by.or(idle_from_now) } else { None };
        }
    }

    /// How the last execution of a one-shot sandbox ended, in this turn.
    pub(crate) fn last_work_ended(&self) -> Option<Cause> {
        let last = self.finished.last().and_then(Execution::outcome)?;
        (self.policy.one_shot && self.sandbox.executions.is_empty()).then_some(last.cause)
    }

    fn start_queued(&mut self) {
        let runs =
            self.sandbox.executions.iter().filter(|e| e.kind == ExecutionKind::Run && e.may_have_a_process());
        let mut running = u32::try_from(runs.count()).unwrap_or(u32::MAX);
        for index in 0..self.sandbox.executions.len() {
            let Execution { kind, state: ExecutionState::Queued { start_by }, .. } =
                self.sandbox.executions[index]
            else {
                continue;
            };
            if kind == ExecutionKind::Run {
                if running >= self.policy.side_by_side {
                    continue;
                }
                running += 1;
            }
            let duty = self.duty_until(start_by);
            self.sandbox.executions[index].state = ExecutionState::Starting { duty };
        }
    }

    pub(crate) fn execution_started(&mut self, ticket: Fence, id: ExecutionId) {
        let expires_at = self.sandbox.expires_at;
        let Some(Execution { state: ExecutionState::Starting { duty }, limits, .. }) = self.find(id) else {
            return self.late(ticket, "execution started");
        };
        let (duty, limits) = (*duty, *limits);
        if !self.awaits(&duty, ticket) {
            return self.late(ticket, "execution started");
        }
        let deadline = limits.timeout_ms.map_or(expires_at, |ms| self.now.after_ms(ms).min(expires_at));
        let quiet_by = limits.inactivity_ms.map(|ms| self.now.after_ms(ms));
        let (started_at, watch) = (self.now, self.duty_until(deadline));
        if let Some(index) = self.sandbox.executions.iter().position(|execution| execution.id == id) {
            self.sandbox.executions[index].state = ExecutionState::Running { started_at, quiet_by, watch };
            self.note_start(index);
        }
        self.record(Fact::ExecutionStarted { execution: id });
        if self.live().and_then(|live| live.accept_by.take()).is_some() {
            self.record(Fact::WorkAccepted { healed: false });
        }
    }

    pub(crate) fn execution_refused(&mut self, ticket: Fence, id: ExecutionId, outcome: Outcome) {
        match self.find(id).map(|execution| execution.state.clone()) {
            Some(ExecutionState::Starting { duty }) if self.awaits(&duty, ticket) => {
                if self.may_recover(outcome.cause) {
                    self.fail(outcome.cause, outcome.detail.unwrap_or_default());
                } else {
                    self.finish_execution(id, outcome);
                    self.suspected();
                }
            }
            Some(_) | None => self.late(ticket, "execution refused"),
        }
    }

    pub(crate) fn execution_ended(&mut self, ticket: Fence, id: ExecutionId, outcome: Outcome) {
        match self.find(id).map(|execution| execution.state.clone()) {
            Some(ExecutionState::Running { watch, .. }) if self.awaits(&watch, ticket) => {
                if !self.holds(Guard::ReportedIsFinal) && self.may_recover(Cause::Lost) {
                    return self.fail(Cause::Lost, String::new());
                }
                self.finish_execution(id, outcome);
            }
            // Its outcome was decided before: this is only the proof that its process is gone.
            Some(ExecutionState::Ending { outcome: decided, kill: Some(_) }) if self.is_first_try(id) => {
                let holds = self.holds(Guard::OutcomeWrittenOnce);
                self.finish_execution(id, if holds { decided } else { outcome });
            }
            Some(_) | None => self.late(ticket, "execution ended"),
        }
    }

    /// Whether nobody can have heard of this execution from an earlier body.
    fn is_first_try(&self, id: ExecutionId) -> bool {
        let own = self.sandbox.generation();
        if !self.holds(Guard::EndsAreOfTheirTry) {
            return true;
        }
        let execution = self.sandbox.executions.iter().find(|execution| execution.id == id);
        execution.is_some_and(|execution| execution.attempts.iter().all(|attempt| attempt.generation == own))
    }

    pub(crate) fn execution_gone(&mut self, ticket: Fence, id: ExecutionId) {
        match self.find(id).map(|execution| execution.state.clone()) {
            Some(ExecutionState::Ending { outcome, kill: Some(duty) }) if self.awaits(&duty, ticket) => {
                self.finish_execution(id, outcome);
            }
            Some(_) | None => self.late(ticket, "execution gone"),
        }
    }

    /// Decides how one execution ends, and sees to it. One that has no process ends at once.
    pub(crate) fn end_execution(&mut self, id: ExecutionId, outcome: Outcome) {
        match self.find(id).map(|execution| execution.state.clone()) {
            Some(ExecutionState::Queued { .. }) => self.finish_execution(id, outcome),
            Some(ExecutionState::Starting { .. } | ExecutionState::Running { .. }) => {
                let kill = Some(self.duty_for(self.policy.kill_ms));
                let cause = outcome.cause;
                if let Some(execution) = self.find(id) {
                    execution.state = ExecutionState::Ending { outcome, kill };
                }
                self.record(Fact::ExecutionEnding { execution: id, cause });
            }
            // Its body is being stopped already.
            Some(ExecutionState::Interrupted) => {
                let cause = outcome.cause;
                if let Some(execution) = self.find(id) {
                    execution.state = ExecutionState::Ending { outcome, kill: None };
                }
                self.record(Fact::ExecutionEnding { execution: id, cause });
            }
            Some(ExecutionState::Ending { .. } | ExecutionState::Ended { .. }) | None => {}
        }
    }

    /// The sandbox ends: what has no process ends now, the rest with the proof that the body is gone.
    pub(crate) fn end_every_execution(&mut self, outcome: &Outcome) {
        let waiting: Vec<_> = self.sandbox.executions.extract_if(.., |e| !e.may_have_a_process()).collect();
        for execution in waiting {
            self.record_end(execution, outcome.clone());
        }
        self.end_what_runs(outcome);
    }

    /// The body goes: what runs in it goes with it.
    pub(crate) fn end_what_runs(&mut self, outcome: &Outcome) {
        for execution in &mut self.sandbox.executions {
            match &mut execution.state {
                ExecutionState::Starting { .. }
                | ExecutionState::Running { .. }
                | ExecutionState::Interrupted => {
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
        let outcome = outcome.settled();
        if matches!(outcome.cause, Cause::TimeLimit | Cause::Inactivity) {
            self.sandbox.timeouts = self.sandbox.timeouts.saturating_add(1);
        }
        self.note_end(&mut execution, &outcome);
        self.record(Fact::ExecutionEnded { execution: execution.id, outcome: outcome.clone() });
        let state = ExecutionState::Ended { outcome, at: self.now };
        self.finished.push(Execution { state, ..execution });
    }
}
