//! What probes and looks say about a live body, and what follows from it.

use crate::turn::Turn;
use crate::{
    BodySeen, Cause, Check, CheckKind, Evidence, ExecutionState, Fact, Fence, Guard, Lease, Live, Outcome,
    ProbeFailure, Probed, Seen, Timestamp, Verdict,
};

impl Turn<'_> {
    pub(crate) fn live(&mut self) -> Option<&mut Live> {
        match &mut self.sandbox.lease {
            Lease::Live(live) => Some(live),
            Lease::Free { .. }
            | Lease::LaunchWaiting { .. }
            | Lease::Starting { .. }
            | Lease::Stopping { .. }
            | Lease::StopWaiting { .. }
            | Lease::Quarantined { .. } => None,
        }
    }

    pub(crate) fn check(&mut self, kind: CheckKind) {
        let duty = self.duty_for(self.policy.probe_ms);
        if let Some(live) = self.live() {
            live.check = Some(Check { kind, duty });
        }
    }

    /// Settled by a check of its own, unless one is under way that will tell.
    pub(crate) fn doubted(&mut self, why: String, by: CheckKind) {
        if self.live().is_some_and(|live| live.check.is_none()) {
            self.record(Fact::InDoubt { why });
            self.check(by);
        }
    }

    /// Something did not work. Whether that was the body's fault, a probe tells.
    pub(crate) fn suspected(&mut self) {
        if self.live().is_some_and(|live| live.check.is_none()) {
            self.check(CheckKind::Probe);
        }
    }

    pub(crate) fn probe_answered(&mut self, check: Check, probed: Probed) {
        if let Some(live) = self.live() {
            live.check = None;
        }
        match (check.kind, probed) {
            (_, Probed::Passed) => self.probe_passed(check.duty.asked_at),
            // A ping proves nothing when it fails: the whole probe tells.
            (CheckKind::Ping, Probed::Failed(_) | Probed::Unknown { .. }) => self.check(CheckKind::Probe),
            (CheckKind::Probe | CheckKind::Look, Probed::Failed(failure)) => self.probe_failed(failure),
            (CheckKind::Probe | CheckKind::Look, Probed::Unknown { why }) => self.check_inconclusive(why),
        }
    }

    fn probe_passed(&mut self, asked_at: Timestamp) {
        let proven_at = self.not_later(asked_at);
        let next_check = self.policy.next_check(proven_at);
        let Some(live) = self.live() else { return };
        let recovered = live.health.verdict != Verdict::Healthy;
        live.health.verdict = Verdict::Healthy;
        live.health.verified_at = proven_at;
        live.health.doubt_since = None;
        live.health.next_check = next_check;
        if recovered {
            self.record(Fact::BecameHealthy);
        }
    }

    /// Where the clock was set back meanwhile, a proof is not from the future.
    pub(crate) fn not_later(&self, asked_at: Timestamp) -> Timestamp {
        asked_at.min(self.now)
    }

    fn probe_failed(&mut self, failure: ProbeFailure) {
        let (now, next_check) = (self.now, self.policy.next_check(self.now));
        let Some(live) = self.live() else { return };
        live.health.next_check = next_check;
        if live.health.verdict == Verdict::Healthy {
            live.health.verdict = Verdict::Unhealthy { since: now, failure: failure.clone() };
            self.record(Fact::BecameUnhealthy { failure: failure.clone() });
        }
        let is_old = self.now.ms_since(self.sandbox.created_at) >= self.policy.unhealthy_age_ms;
        // Nobody has anything to lose in the pool.
        if is_old || self.sandbox.pooled.is_some() {
            self.fail(Cause::ProbeFailed, format!("{failure:?}"));
        } else {
            // A body that is gone fails its probes too, and that is another story.
            self.check(CheckKind::Look);
        }
    }

    /// A probe or look gave no answer. That says nothing about the body, but not for ever.
    pub(crate) fn check_inconclusive(&mut self, why: String) {
        let (now, later) = (self.now, self.now.after_ms(self.policy.look_again_ms));
        let Some(live) = self.live() else { return };
        live.check = None;
        live.health.hold_until = later;
        live.health.next_check = later;
        let since = *live.health.doubt_since.get_or_insert(now);
        if since == now {
            self.record(Fact::InDoubt { why: why.clone() });
        }
        if now.ms_since(since) >= self.policy.doubt_ms {
            self.fail(Cause::ProviderError, why);
        }
    }

    /// Whether exactly the leased body is there, and nothing else.
    pub(crate) fn is_ours(&self, bodies: &[BodySeen]) -> bool {
        match bodies {
            [body] if body.generation == self.sandbox.generation() && body.whole => true,
            [_, ..] => !self.holds(Guard::ReuseNeedsMatch),
            [] => false,
        }
    }

    pub(crate) fn look_answered(&mut self, asked: Fence, evidence: Evidence) {
        match evidence {
            Evidence::Absent(checks) => self.body_lost(checks),
            Evidence::Present(bodies) if self.is_ours(&bodies) => {
                if let Some(live) = self.live() {
                    live.check = None;
                }
                self.judge(asked, &bodies[0]);
            }
            Evidence::Present(bodies) => {
                let generations = bodies.iter().map(|body| body.generation).collect();
                self.record(Fact::UnexpectedBodies { generations });
                let cause = self.cause_of_remains(&bodies);
                self.fail(cause, "the body is not the one that was leased, or is not whole".into());
            }
            Evidence::Unknown { why } => self.check_inconclusive(why),
        }
    }

    fn cause_of_remains(&self, bodies: &[BodySeen]) -> Cause {
        // A disk keeps directories of a body that went with its host.
        if self.sandbox.rebooted && !bodies.iter().any(|body| body.whole) {
            return Cause::HostRestarted;
        }
        // A keeper ends its body in time by itself, and the look may come before the deadline is noticed.
        if self.is_over(self.sandbox.expires_at) { Cause::MaxLife } else { Cause::ProviderError }
    }

    fn body_lost(&mut self, checks: Vec<crate::ReceiptCheck>) {
        let cause = if self.sandbox.rebooted { Cause::HostRestarted } else { Cause::Lost };
        let receipt = self.receipt(checks);
        let generation = self.sandbox.generation();
        self.record(Fact::Reconciled { previous_status: "live".into() });
        self.fail_without_body(cause, "its body is gone".into());
        self.free(receipt, generation);
    }

    /// Compares what is believed of a live body with what was seen of it.
    fn judge(&mut self, asked: Fence, seen: &BodySeen) {
        self.judge_executions(asked, seen);
        self.judge_acceptance(seen);
        self.judge_idleness(seen);
    }

    fn judge_executions(&mut self, asked: Fence, body: &BodySeen) {
        let believed: Vec<_> =
            self.sandbox.executions.iter().filter(|e| e.may_have_a_process()).map(|e| e.id).collect();
        let mut lost = false;
        for id in believed {
            let seen = body.executions.iter().find(|seen| seen.execution == id).map(|seen| &seen.seen);
            let Some(execution) = self.sandbox.executions.iter().find(|e| e.id == id) else {
                continue;
            };
            match (&execution.state, seen) {
                (ExecutionState::Running { .. }, Some(Seen::Ended(outcome))) => {
                    self.finish_execution(id, outcome.clone());
                }
                // The answer to the start was lost, the start was not.
                (ExecutionState::Starting { duty }, Some(Seen::Ended(outcome))) => {
                    self.execution_started(duty.ticket, id);
                    self.finish_execution(id, outcome.clone());
                }
                (ExecutionState::Starting { duty }, Some(Seen::Running { .. })) => {
                    self.execution_started(duty.ticket, id);
                }
                (ExecutionState::Running { .. }, Some(Seen::Running { last_activity_at })) => {
                    let inactivity_ms = execution.limits.inactivity_ms;
                    self.judge_inactivity(id, inactivity_ms.map(|ms| last_activity_at.after_ms(ms)));
                }
                (ExecutionState::Running { watch, .. }, None)
                    if watch.ticket < asked || !self.holds(Guard::LookKnowsItsTime) =>
                {
                    if self.may_recover(Cause::Lost) {
                        lost = true;
                    } else {
                        self.finish_execution(id, Outcome::lost("its sandbox does not know it"));
                    }
                }
                (ExecutionState::Running { .. } | ExecutionState::Starting { .. }, None)
                | (
                    ExecutionState::Queued { .. }
                    | ExecutionState::Interrupted
                    | ExecutionState::Ending { .. }
                    | ExecutionState::Ended { .. },
                    _,
                ) => {}
            }
        }
        // After what has ended: that is not run again.
        if lost {
            self.fail(Cause::Lost, "its sandbox does not know it".into());
        }
    }

    fn judge_inactivity(&mut self, id: crate::ExecutionId, until: Option<Timestamp>) {
        if until.is_some_and(|until| until <= self.now) {
            return self.end_execution(id, Outcome::ended_for(Cause::Inactivity));
        }
        let execution = self.sandbox.executions.iter_mut().find(|e| e.id == id);
        if let Some(ExecutionState::Running { quiet_by, .. }) = execution.map(|e| &mut e.state) {
            *quiet_by = until;
        }
    }

    /// The deadline for accepting work concerns bodies that do none.
    fn judge_acceptance(&mut self, body: &BodySeen) {
        let busy = body.executions.iter().any(|seen| matches!(seen.seen, Seen::Running { .. }));
        let heals = busy && self.holds(Guard::AcceptedWorkHeals);
        let now = self.now;
        let Some(live) = self.live() else { return };
        let Some(accept_by) = live.accept_by else { return };
        if heals {
            live.accept_by = None;
            self.record(Fact::WorkAccepted { healed: true });
        } else if accept_by <= now {
            self.fail(Cause::StartDeadline, "no work was accepted in time".into());
        }
    }

    fn judge_idleness(&mut self, body: &BodySeen) {
        let (now, idle_ms) = (self.now, self.policy.idle_ms);
        let Some(live) = self.live() else { return };
        let (Some(idle_by), Some(idle_ms)) = (live.idle_by, idle_ms) else {
            return;
        };
        let busy_until = body.last_busy_at.map_or(idle_by, |busy| busy.after_ms(idle_ms).max(idle_by));
        live.idle_by = Some(busy_until);
        if busy_until <= now {
            self.end(Cause::Idle, false);
        }
    }
}
