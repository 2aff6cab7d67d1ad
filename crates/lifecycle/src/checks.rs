//! Results of probes, pings and observations of a live instance, and what follows from them.

use crate::transition::TransitionBuilder;
use crate::{
    Cause, Check, CheckKind, Evidence, ExecutionState, Fact, Fence, Guard, InstanceObservation, Lease, Live,
    Outcome, ProbeFailure, ProbeResult, ProcessObservation, Timestamp, Verdict,
};

impl TransitionBuilder<'_> {
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
        let pending = self.begin_effect_for(self.policy.probe_ms);
        if let Some(live) = self.live() {
            live.check = Some(Check { kind, pending });
        }
    }

    /// Starts a check to confirm or dispel the doubt, unless a check is already under way.
    pub(crate) fn doubted(&mut self, why: String, by: CheckKind) {
        if self.live().is_some_and(|live| live.check.is_none()) {
            self.record(Fact::InDoubt { why });
            self.check(by);
        }
    }

    /// An execution could not be started. A probe finds out whether the instance is at fault.
    pub(crate) fn probe_after_failure(&mut self) {
        if self.live().is_some_and(|live| live.check.is_none()) {
            self.check(CheckKind::Probe);
        }
    }

    pub(crate) fn probe_answered(&mut self, check: Check, result: ProbeResult) {
        if let Some(live) = self.live() {
            live.check = None;
        }
        match (check.kind, result) {
            (_, ProbeResult::Passed) => self.probe_passed(check.pending.requested_at),
            // A failed ping is not conclusive; the full probe decides.
            (CheckKind::Ping, ProbeResult::Failed(_) | ProbeResult::Unknown { .. }) => {
                self.check(CheckKind::Probe)
            }
            (CheckKind::Probe | CheckKind::Observe, ProbeResult::Failed(failure)) => {
                self.probe_failed(failure)
            }
            (CheckKind::Probe | CheckKind::Observe, ProbeResult::Unknown { why }) => {
                self.check_inconclusive(why)
            }
        }
    }

    fn probe_passed(&mut self, requested_at: Timestamp) {
        let proven_at = self.not_later(requested_at);
        let next_check = self.policy.next_check(proven_at);
        let Some(live) = self.live() else { return };
        let recovered = live.health.verdict != Verdict::Healthy;
        live.health.verdict = Verdict::Healthy;
        live.health.verified_at = proven_at;
        live.health.failed_probes = 0;
        live.health.inconclusive_since = None;
        live.health.next_check = next_check;
        if recovered {
            self.record(Fact::BecameHealthy);
        }
    }

    /// Caps the time of a proof at `now`, in case the clock was set back meanwhile.
    pub(crate) fn not_later(&self, requested_at: Timestamp) -> Timestamp {
        requested_at.min(self.now)
    }

    fn probe_failed(&mut self, failure: ProbeFailure) {
        let (now, next_check) = (self.now, self.policy.next_check(self.now));
        let enough = self.policy.failed_probes;
        let Some(live) = self.live() else { return };
        live.health.next_check = next_check;
        live.health.failed_probes = live.health.failed_probes.saturating_add(1).min(enough);
        let is_lasting = live.health.failed_probes == enough;
        if live.health.verdict == Verdict::Healthy {
            live.health.verdict = Verdict::Unhealthy { since: now, failure: failure.clone() };
            self.record(Fact::BecameUnhealthy { failure: failure.clone() });
        }
        let is_old = self.now.ms_since(self.sandbox.created_at) >= self.policy.unhealthy_age_ms;
        // A pooled instance has no user, so it is replaced at the first failed probe.
        if (is_lasting && is_old) || self.sandbox.pooled.is_some() {
            self.instance_failed(Cause::ProbeFailed, failure.to_string());
        } else {
            // An instance that is gone fails its probes too. An observation distinguishes the two cases.
            self.check(CheckKind::Observe);
        }
    }

    /// A probe or observation gave no result. The instance is given the benefit of the doubt for `doubt_ms`.
    pub(crate) fn check_inconclusive(&mut self, why: String) {
        let (now, later) = (self.now, self.now.after_ms(self.policy.observe_retry_ms));
        let Some(live) = self.live() else { return };
        live.check = None;
        live.health.observe_not_before = later;
        live.health.next_check = later;
        let since = *live.health.inconclusive_since.get_or_insert(now);
        if since == now {
            self.record(Fact::InDoubt { why: why.clone() });
        }
        if now.ms_since(since) >= self.policy.doubt_ms {
            self.instance_failed(Cause::ProviderError, why);
        }
    }

    /// Whether the observation shows exactly the leased instance, complete and alone.
    pub(crate) fn is_leased_instance(&self, instances: &[InstanceObservation]) -> bool {
        match instances {
            [instance] if instance.generation == self.sandbox.generation() && instance.whole => true,
            [_, ..] => !self.holds(Guard::ReuseNeedsMatch),
            [] => false,
        }
    }

    pub(crate) fn observation_answered(&mut self, fence: Fence, evidence: Evidence) {
        match evidence {
            Evidence::Absent(checks) => self.instance_lost(checks),
            Evidence::Present(instances) if self.is_leased_instance(&instances) => {
                if let Some(live) = self.live() {
                    live.check = None;
                }
                self.apply_observation(fence, &instances[0]);
            }
            Evidence::Present(instances) => {
                let generations = instances.iter().map(|instance| instance.generation).collect();
                self.record(Fact::UnexpectedInstances { generations });
                self.record(Fact::Reconciled { previous_status: "live".into() });
                let (cause, why) = self.cause_of_mismatch(&instances);
                self.instance_failed(cause, why);
            }
            Evidence::Unknown { why } => self.check_inconclusive(why),
        }
    }

    fn cause_of_mismatch(&self, instances: &[InstanceObservation]) -> (Cause, String) {
        let mismatch = "the instance is not the leased one, or is incomplete".to_owned();
        // After a reboot the disk still holds directories of an instance whose processes are gone.
        if self.sandbox.rebooted && !instances.iter().any(|instance| instance.whole) {
            return (Cause::HostRestarted, "the host was restarted".to_owned());
        }
        // The keeper enforces the deadline itself, and the observation may arrive before the engine notices the
        // deadline.
        if self.is_past(self.sandbox.expires_at) {
            return (Cause::MaxLife, mismatch);
        }
        match instances {
            [InstanceObservation { generation, keeper_end: Some(end), .. }]
                if *generation == self.sandbox.generation() =>
            {
                (Cause::KeeperKilled, format!("its keeper {end}"))
            }
            _ => (Cause::ProviderError, mismatch),
        }
    }

    fn instance_lost(&mut self, checks: Vec<crate::ReceiptCheck>) {
        let cause = if self.sandbox.rebooted { Cause::HostRestarted } else { Cause::Lost };
        let receipt = self.receipt(checks);
        let generation = self.sandbox.generation();
        self.record(Fact::Reconciled { previous_status: "live".into() });
        self.absent_instance_failed(cause, "its instance is gone".into());
        self.free(receipt, generation);
    }

    /// Compares the stored state of a live instance with an observation of it.
    fn apply_observation(&mut self, fence: Fence, instance: &InstanceObservation) {
        self.compare_executions(fence, instance);
        self.check_acceptance(instance);
        self.check_idleness(instance);
    }

    fn compare_executions(&mut self, fence: Fence, instance: &InstanceObservation) {
        let running: Vec<_> =
            self.sandbox.executions.iter().filter(|e| e.may_have_process()).map(|e| e.id).collect();
        let mut lost = false;
        for id in running {
            let process =
                instance.executions.iter().find(|seen| seen.execution == id).map(|seen| &seen.process);
            let Some(execution) = self.sandbox.executions.iter().find(|e| e.id == id) else {
                continue;
            };
            match (&execution.state, process) {
                (ExecutionState::Running { .. }, Some(ProcessObservation::Ended(outcome))) => {
                    self.observed_end(id, outcome.clone());
                }
                // The execution started, but the result of the start was lost.
                (ExecutionState::Starting { pending }, Some(ProcessObservation::Ended(outcome))) => {
                    self.execution_started(pending.fence, id);
                    self.observed_end(id, outcome.clone());
                }
                (ExecutionState::Starting { pending }, Some(ProcessObservation::Running { .. })) => {
                    self.execution_started(pending.fence, id);
                }
                (ExecutionState::Running { .. }, Some(ProcessObservation::Running { last_activity_at })) => {
                    let inactivity_ms = execution.limits.inactivity_ms;
                    self.update_inactivity(id, inactivity_ms.map(|ms| last_activity_at.after_ms(ms)));
                }
                (ExecutionState::Running { watch, .. }, None)
                    if watch.fence < fence || !self.holds(Guard::EarlierObservationIgnored) =>
                {
                    if self.may_retry(Cause::Lost) {
                        lost = true;
                    } else {
                        self.finish_execution(id, Outcome::lost("the instance does not know this execution"));
                    }
                }
                (ExecutionState::Running { .. } | ExecutionState::Starting { .. }, None)
                | (
                    ExecutionState::Queued { .. }
                    | ExecutionState::Preparing { .. }
                    | ExecutionState::Interrupted
                    | ExecutionState::Ending { .. }
                    | ExecutionState::Collecting { .. }
                    | ExecutionState::Ended { .. },
                    _,
                ) => {}
            }
        }
        // Last, so that executions that have ended are not retried.
        if lost {
            self.instance_failed(Cause::Lost, "the instance does not know this execution".into());
        }
    }

    fn observed_end(&mut self, id: crate::ExecutionId, outcome: Outcome) {
        if let Some(ExecutionState::Running { watch, .. }) = self.find(id).map(|execution| &execution.state) {
            let watch = *watch;
            self.process_exited(id, watch, outcome);
        }
    }

    fn update_inactivity(&mut self, id: crate::ExecutionId, until: Option<Timestamp>) {
        if until.is_some_and(|until| until <= self.now) {
            return self.end_execution(id, Outcome::ended_for(Cause::Inactivity));
        }
        let execution = self.sandbox.executions.iter_mut().find(|e| e.id == id);
        if let Some(ExecutionState::Running { quiet_by, .. }) = execution.map(|e| &mut e.state) {
            *quiet_by = until;
        }
    }

    /// The deadline for accepting work applies only to instances in which no execution runs.
    fn check_acceptance(&mut self, instance: &InstanceObservation) {
        let busy =
            instance.executions.iter().any(|seen| matches!(seen.process, ProcessObservation::Running { .. }));
        let heals = busy && self.holds(Guard::AcceptedWorkClearsDeadline);
        let now = self.now;
        let Some(live) = self.live() else { return };
        let Some(accept_by) = live.accept_by else { return };
        if heals {
            live.accept_by = None;
            self.record(Fact::WorkAccepted { healed: true });
        } else if accept_by <= now {
            self.instance_failed(Cause::StartDeadline, "no execution was accepted in time".into());
        }
    }

    fn check_idleness(&mut self, instance: &InstanceObservation) {
        let (now, idle_ms) = (self.now, self.policy.idle_ms);
        let Some(live) = self.live() else { return };
        let (Some(idle_by), Some(idle_ms)) = (live.idle_by, idle_ms) else {
            return;
        };
        let busy_until = instance.last_busy_at.map_or(idle_by, |busy| busy.after_ms(idle_ms).max(idle_by));
        live.idle_by = Some(busy_until);
        if busy_until <= now {
            self.end(Cause::Idle, false);
        }
    }
}
