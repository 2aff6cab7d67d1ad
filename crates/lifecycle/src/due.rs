//! Deadlines: when something must happen next, and what happens when it has not.

use crate::turn::Turn;
use crate::{
    Cause, CheckKind, ExecutionState, Guard, Lease, Life, Live, Outcome, Sandbox, StartStep, StopFailure,
    Timestamp, Verdict,
};

impl Sandbox {
    /// The next moment at which time alone changes something. None only for what is settled.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let lease = match &self.lease {
            Lease::Free { .. } => None,
            Lease::Starting { duty, .. } | Lease::Stopping { duty, .. } => Some(duty.deadline),
            Lease::Live(live) => {
                let extension = live.extension.map(|extension| extension.duty.deadline);
                extension.into_iter().chain([self.next_check(live)]).min()
            }
            Lease::LaunchWaiting { next_at, .. } | Lease::StopWaiting { next_at, .. } => Some(*next_at),
            Lease::Quarantined { look: Some(duty), .. } => Some(duty.deadline),
            Lease::Quarantined { look: None, next_look, .. } => Some(*next_look),
        };
        let executions = self.executions.iter().filter_map(|execution| match &execution.state {
            ExecutionState::Queued { start_by } => Some(*start_by),
            ExecutionState::Starting { duty } => Some(duty.deadline),
            ExecutionState::Running { watch, .. } => Some(watch.deadline),
            ExecutionState::Ending { kill, .. } => kill.map(|duty| duty.deadline),
            ExecutionState::Interrupted | ExecutionState::Ended { .. } => None,
        });
        let life = matches!(self.life, Life::Wanted).then_some(self.expires_at);
        lease.into_iter().chain(executions).chain(life).min()
    }

    fn next_check(&self, live: &Live) -> Timestamp {
        match live.check {
            Some(check) => check.duty.deadline,
            None => {
                let looks = self.wants_look(live).map(|at| at.max(live.health.hold_until));
                looks.map_or(live.health.next_check, |at| at.min(live.health.next_check))
            }
        }
    }

    /// When a look is needed to judge a deadline that activity moves.
    fn wants_look(&self, live: &Live) -> Option<Timestamp> {
        let quiet = self.executions.iter().filter_map(|execution| match execution.state {
            ExecutionState::Running { quiet_by, .. } => quiet_by,
            ExecutionState::Queued { .. }
            | ExecutionState::Starting { .. }
            | ExecutionState::Interrupted
            | ExecutionState::Ending { .. }
            | ExecutionState::Ended { .. } => None,
        });
        quiet.chain(live.accept_by).chain(live.idle_by).min()
    }
}

impl Turn<'_> {
    pub(crate) fn time_passed(&mut self) {
        if matches!(self.sandbox.life, Life::Wanted) && self.is_over(self.sandbox.expires_at) {
            self.end(Cause::MaxLife, false);
        }
        self.executions_overdue();
        self.lease_overdue();
    }

    pub(crate) fn is_over(&self, deadline: Timestamp) -> bool {
        deadline <= self.now
    }

    fn executions_overdue(&mut self) {
        for execution in self.sandbox.executions.clone() {
            // What becomes of one may have decided on others.
            if self.find(execution.id).is_none_or(|it| it.state != execution.state) {
                continue;
            }
            match execution.state {
                ExecutionState::Queued { start_by }
                    if self.is_over(start_by) && self.holds(Guard::QueuedExpires) =>
                {
                    let outcome = Outcome::failed(Cause::StartDeadline, "no place became free in time");
                    self.finish_execution(execution.id, outcome);
                }
                ExecutionState::Starting { duty } if self.is_over(duty.deadline) => {
                    let why = "its process did not start in time";
                    if self.may_recover(Cause::StartDeadline) {
                        self.fail(Cause::StartDeadline, why.into());
                    } else {
                        self.end_execution(execution.id, Outcome::failed(Cause::StartDeadline, why));
                    }
                }
                ExecutionState::Running { watch, .. } if self.is_over(watch.deadline) => {
                    self.end_execution(execution.id, Outcome::ended_for(Cause::TimeLimit));
                }
                // A process that cannot be ended alone is ended with its sandbox.
                ExecutionState::Ending { kill: Some(duty), .. } if self.is_over(duty.deadline) => {
                    self.end(Cause::ProviderError, true);
                }
                ExecutionState::Queued { .. }
                | ExecutionState::Starting { .. }
                | ExecutionState::Running { .. }
                | ExecutionState::Interrupted
                | ExecutionState::Ending { .. }
                | ExecutionState::Ended { .. } => {}
            }
        }
    }

    fn lease_overdue(&mut self) {
        match &self.sandbox.lease {
            Lease::Starting { step, duty, .. } if self.is_over(duty.deadline) => {
                let cause = match step {
                    StartStep::Launch => Cause::StartDeadline,
                    StartStep::Identify | StartStep::Probe => Cause::ProbeFailed,
                };
                self.start_failed(cause, format!("no answer to {step:?} by its deadline"));
            }
            Lease::LaunchWaiting { next_at, .. } if self.is_over(*next_at) => self.launch(),
            Lease::Live(_) => {
                self.extension_overdue();
                self.checks_overdue();
            }
            Lease::Stopping { duty, .. }
                if self.is_over(duty.deadline) && self.holds(Guard::StopAttemptExpires) =>
            {
                self.stop_failed(StopFailure::DeadlinePassed);
            }
            Lease::StopWaiting { attempts, next_at, .. } if self.is_over(*next_at) => {
                // Whoever waited politely before has waited long enough.
                self.stop_attempt(attempts + 1, true);
            }
            Lease::Quarantined { look: Some(duty), .. } if self.is_over(duty.deadline) => {
                self.look_again_later("no answer by the deadline".into());
            }
            Lease::Quarantined { look: None, next_look, .. } if self.is_over(*next_look) => {
                self.look_in_quarantine()
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
            if check.duty.deadline > self.now {
                return;
            }
            if check.kind == CheckKind::Ping {
                return self.check(CheckKind::Probe);
            }
            self.check_inconclusive(format!("no answer to {:?} by its deadline", check.kind));
        }
        self.next_check_due();
    }

    fn next_check_due(&mut self) {
        let Lease::Live(live) = &self.sandbox.lease else {
            return;
        };
        let may_look = live.check.is_none() && self.is_over(live.health.hold_until);
        let look_due = self.sandbox.wants_look(live).is_some_and(|at| self.is_over(at));
        if may_look && look_due {
            self.check(CheckKind::Look);
        } else if live.check.is_none() && self.is_over(live.health.next_check) {
            // A ping says nothing of what has failed, so it cannot say that it works again.
            let sound = live.health.doubt_since.is_none() && live.health.verdict == Verdict::Healthy;
            self.check(if sound { CheckKind::Ping } else { CheckKind::Probe });
        }
    }
}
