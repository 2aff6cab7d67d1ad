//! Deadlines: the next moment at which the engine must act, and what happens when a deadline passes.

use crate::transition::TransitionBuilder;
use crate::{
    Cause, CheckKind, ExecutionState, Guard, Lease, Life, Live, Outcome, Sandbox, StartStep, StopFailure,
    Timestamp, Verdict,
};

impl Sandbox {
    /// The next moment at which time alone changes the state. `None` only when the sandbox is settled.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let lease = match &self.lease {
            Lease::Free { .. } => None,
            Lease::Starting { pending, .. } | Lease::Stopping { pending, .. } => Some(pending.deadline),
            Lease::Live(live) => {
                let extension = live.extension.map(|extension| extension.pending.deadline);
                extension.into_iter().chain([self.next_check(live)]).min()
            }
            Lease::LaunchWaiting { next_at, .. } | Lease::StopWaiting { next_at, .. } => Some(*next_at),
            Lease::Quarantined { pending: Some(pending), .. } => Some(pending.deadline),
            Lease::Quarantined { pending: None, next_observation, .. } => Some(*next_observation),
        };
        let executions = self.executions.iter().filter_map(|execution| match &execution.state {
            ExecutionState::Queued { start_by } => Some(*start_by),
            ExecutionState::Preparing { pending }
            | ExecutionState::Starting { pending }
            | ExecutionState::Collecting { pending, .. } => Some(pending.deadline),
            ExecutionState::Running { watch, .. } => Some(watch.deadline),
            ExecutionState::Ending { kill, .. } => kill.map(|pending| pending.deadline),
            ExecutionState::Interrupted | ExecutionState::Ended { .. } => None,
        });
        let life = matches!(self.life, Life::Wanted).then_some(self.expires_at);
        lease.into_iter().chain(executions).chain(life).min()
    }

    fn next_check(&self, live: &Live) -> Timestamp {
        match live.check {
            Some(check) => check.pending.deadline,
            None => {
                let observation =
                    self.next_observation_due(live).map(|at| at.max(live.health.observe_not_before));
                observation.map_or(live.health.next_check, |at| at.min(live.health.next_check))
            }
        }
    }

    /// When an observation is needed, because a deadline that activity extends (inactivity, acceptance, idleness) may
    /// have passed.
    fn next_observation_due(&self, live: &Live) -> Option<Timestamp> {
        let quiet = self.executions.iter().filter_map(|execution| match execution.state {
            ExecutionState::Running { quiet_by, .. } => quiet_by,
            ExecutionState::Queued { .. }
            | ExecutionState::Preparing { .. }
            | ExecutionState::Starting { .. }
            | ExecutionState::Interrupted
            | ExecutionState::Ending { .. }
            | ExecutionState::Collecting { .. }
            | ExecutionState::Ended { .. } => None,
        });
        quiet.chain(live.accept_by).chain(live.idle_by).min()
    }
}

impl TransitionBuilder<'_> {
    pub(crate) fn time_passed(&mut self) {
        if matches!(self.sandbox.life, Life::Wanted) && self.is_past(self.sandbox.expires_at) {
            self.end(Cause::MaxLife, false);
        }
        self.executions_overdue();
        self.lease_overdue();
    }

    pub(crate) fn is_past(&self, deadline: Timestamp) -> bool {
        deadline <= self.now
    }

    fn executions_overdue(&mut self) {
        for execution in self.sandbox.executions.clone() {
            // Handling an earlier execution may have changed this one.
            if self.find(execution.id).is_none_or(|it| it.state != execution.state) {
                continue;
            }
            match execution.state {
                ExecutionState::Queued { start_by }
                    if self.is_past(start_by) && self.holds(Guard::QueuedExpires) =>
                {
                    let outcome =
                        Outcome::failed(Cause::StartDeadline, "no execution slot became free in time");
                    self.finish_execution(execution.id, outcome);
                }
                ExecutionState::Preparing { pending } | ExecutionState::Starting { pending }
                    if self.is_past(pending.deadline) =>
                {
                    let why = "the process did not start in time";
                    if self.may_retry(Cause::StartDeadline) {
                        self.instance_failed(Cause::StartDeadline, why.into());
                    } else {
                        self.end_execution(execution.id, Outcome::failed(Cause::StartDeadline, why));
                    }
                }
                ExecutionState::Running { watch, .. } if self.is_past(watch.deadline) => {
                    self.end_execution(execution.id, Outcome::ended_for(Cause::TimeLimit));
                }
                // The process could not be killed alone, so the whole sandbox is stopped.
                ExecutionState::Ending { kill: Some(pending), .. } if self.is_past(pending.deadline) => {
                    self.end(Cause::ProviderError, true);
                }
                ExecutionState::Collecting { outcome, pending }
                    if self.is_past(pending.deadline) && self.holds(Guard::CollectingExpires) =>
                {
                    self.finish_execution(execution.id, outcome);
                }
                ExecutionState::Queued { .. }
                | ExecutionState::Preparing { .. }
                | ExecutionState::Starting { .. }
                | ExecutionState::Running { .. }
                | ExecutionState::Interrupted
                | ExecutionState::Ending { .. }
                | ExecutionState::Collecting { .. }
                | ExecutionState::Ended { .. } => {}
            }
        }
    }

    fn lease_overdue(&mut self) {
        match &self.sandbox.lease {
            Lease::Starting { step, pending, .. } if self.is_past(pending.deadline) => {
                let cause = match step {
                    StartStep::Launch => Cause::StartDeadline,
                    StartStep::Identify | StartStep::Probe => Cause::ProbeFailed,
                };
                self.start_failed(cause, format!("no answer to the {step} by its deadline"));
            }
            Lease::LaunchWaiting { next_at, .. } if self.is_past(*next_at) => self.launch(),
            Lease::Live(_) => {
                self.extension_overdue();
                self.checks_overdue();
            }
            Lease::Stopping { pending, .. }
                if self.is_past(pending.deadline) && self.holds(Guard::StopAttemptExpires) =>
            {
                self.stop_failed(StopFailure::DeadlinePassed);
            }
            Lease::StopWaiting { attempts, next_at, .. } if self.is_past(*next_at) => {
                // Attempts after the first are forced: no second grace period.
                self.stop_attempt(attempts + 1, true);
            }
            Lease::Quarantined { pending: Some(pending), .. } if self.is_past(pending.deadline) => {
                self.reschedule_quarantine_observation("no answer by the deadline".into());
            }
            Lease::Quarantined { pending: None, next_observation, .. } if self.is_past(*next_observation) => {
                self.begin_quarantine_observation()
            }
            Lease::Free { .. }
            | Lease::LaunchWaiting { .. }
            | Lease::Starting { .. }
            | Lease::Stopping { .. }
            | Lease::StopWaiting { .. }
            | Lease::Quarantined { .. } => {}
        }
    }

    fn checks_overdue(&mut self) {
        let Some(live) = self.live() else { return };
        if let Some(check) = live.check {
            if check.pending.deadline > self.now {
                return;
            }
            // A node that exits leaves its check without an answer. That says nothing about the instance, so this
            // node checks it itself.
            if check.pending.node != self.node() {
                return self.check(check.kind);
            }
            if check.kind == CheckKind::Ping {
                return self.check(CheckKind::Probe);
            }
            self.check_inconclusive(format!("no answer to the {} by its deadline", check.kind));
        }
        self.next_check_due();
    }

    fn next_check_due(&mut self) {
        let Lease::Live(live) = &self.sandbox.lease else {
            return;
        };
        let may_observe = live.check.is_none() && self.is_past(live.health.observe_not_before);
        let observation_due = self.sandbox.next_observation_due(live).is_some_and(|at| self.is_past(at));
        if may_observe && observation_due {
            self.check(CheckKind::Observe);
        } else if live.check.is_none() && self.is_past(live.health.next_check) {
            // A ping does not test what has failed, so only a full probe can prove recovery.
            let sound = live.health.inconclusive_since.is_none() && live.health.verdict == Verdict::Healthy;
            self.check(if sound { CheckKind::Ping } else { CheckKind::Probe });
        }
    }
}
