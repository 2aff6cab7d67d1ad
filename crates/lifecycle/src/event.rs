//! Events: results of effects, and the passing of time. An event cannot be refused. One that no state awaits is
//! recorded as late and changes nothing.

use crate::transition::TransitionBuilder;
use crate::{
    Cause, CheckKind, Context, Evidence, ExecutionId, Fact, Fence, Guard, Lease, Outcome, PendingEffect,
    ProbeResult, Sandbox, StartStep, StopOutcome, Transition,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    Launched {
        fence: Fence,
    },
    /// The launch failed, or left an incomplete instance.
    LaunchFailed {
        fence: Fence,
        why: String,
    },
    Probed {
        fence: Fence,
        result: ProbeResult,
    },
    Observed {
        fence: Fence,
        evidence: Evidence,
    },
    Stopped {
        fence: Fence,
        outcome: StopOutcome,
    },
    /// The instance has accepted its new deadline.
    Extended {
        fence: Fence,
    },
    /// The instance could not be reached to change its deadline.
    ExtendFailed {
        fence: Fence,
        why: String,
    },
    /// The input files of the execution are in place.
    FilesPut {
        fence: Fence,
        execution: ExecutionId,
    },
    ExecutionStarted {
        fence: Fence,
        execution: ExecutionId,
    },
    /// The process was certainly never created.
    ExecutionRefused {
        fence: Fence,
        execution: ExecutionId,
        cause: Cause,
        why: String,
    },
    ExecutionEnded {
        fence: Fence,
        execution: ExecutionId,
        outcome: Outcome,
    },
    /// After a kill: the process is proven gone and will not be created later.
    ExecutionGone {
        fence: Fence,
        execution: ExecutionId,
    },
    /// The artifacts are stored, as far as they could be.
    Collected {
        fence: Fence,
        execution: ExecutionId,
    },
    /// A partial view, such as a reconcile listing, contradicts the stored state. Checked by an observation.
    Doubted {
        why: String,
    },
    /// A user's operation on the instance contradicts the stored health. Checked by a probe.
    Disagreed {
        why: String,
    },
    /// Time has passed: act on the deadlines that are due.
    TimePassed,
}

/// Applies an event and returns the transition to commit.
#[must_use]
pub fn step(sandbox: &Sandbox, event: Event, ctx: Context<'_>) -> Transition {
    let mut builder = TransitionBuilder::begin(sandbox, ctx);
    builder.apply(event);
    builder.finish()
}

impl TransitionBuilder<'_> {
    fn apply(&mut self, event: Event) {
        let late = match event {
            Event::Launched { fence } if self.launching(fence) => return self.launched(),
            Event::LaunchFailed { fence, why } if self.launching(fence) => {
                return self.start_failed(Cause::StartFailed, why);
            }
            Event::Probed { fence, result } => return self.probed(fence, result),
            Event::Observed { fence, evidence } => return self.observed(fence, evidence),
            Event::Stopped { fence, outcome } if self.stopping(fence) => {
                return self.stop_answered(outcome);
            }
            Event::Extended { fence } if self.extending(fence) => return self.extended(),
            Event::ExtendFailed { fence, why } if self.extending(fence) => {
                return self.extension_failed(why);
            }
            Event::FilesPut { fence, execution } => return self.files_put(fence, execution),
            Event::ExecutionStarted { fence, execution } => {
                return self.execution_started(fence, execution);
            }
            Event::ExecutionRefused { fence, execution, cause, why } => {
                return self.execution_refused(fence, execution, Outcome::failed(cause, why));
            }
            Event::ExecutionEnded { fence, execution, outcome } => {
                return self.execution_ended(fence, execution, outcome);
            }
            Event::ExecutionGone { fence, execution } => return self.execution_gone(fence, execution),
            Event::Collected { fence, execution } => return self.collected(fence, execution),
            Event::Doubted { why } => return self.doubted(why, CheckKind::Observe),
            Event::Disagreed { why } => return self.doubted(why, CheckKind::Probe),
            Event::TimePassed => return self.time_passed(),
            Event::Launched { fence } => (fence, "launched"),
            Event::LaunchFailed { fence, .. } => (fence, "launch failed"),
            Event::Stopped { fence, .. } => (fence, "stopped"),
            Event::Extended { fence } => (fence, "extended"),
            Event::ExtendFailed { fence, .. } => (fence, "extend failed"),
        };
        self.record_late(late.0, late.1);
    }

    pub(crate) fn record_late(&mut self, fence: Fence, answer: &str) {
        self.record(Fact::LateAnswer { fence, answer: answer.to_owned() });
    }

    /// Whether this fence is the one that the pending effect awaits.
    pub(crate) fn awaits(&self, pending: &PendingEffect, fence: Fence) -> bool {
        pending.fence == fence || !self.holds(Guard::StaleAnswersIgnored)
    }

    fn launching(&self, fence: Fence) -> bool {
        matches!(&self.sandbox.lease, Lease::Starting { step: StartStep::Launch, pending, .. } if self.awaits(pending, fence))
    }

    fn stopping(&self, fence: Fence) -> bool {
        matches!(&self.sandbox.lease, Lease::Stopping { pending, .. } if self.awaits(pending, fence))
    }

    fn probed(&mut self, fence: Fence, result: ProbeResult) {
        match &self.sandbox.lease {
            Lease::Starting { step: StartStep::Probe, pending, .. } if self.awaits(pending, fence) => {
                match result {
                    ProbeResult::Passed => self.became_live(pending.requested_at),
                    ProbeResult::Failed(failure) => {
                        self.start_failed(Cause::ProbeFailed, failure.to_string())
                    }
                    ProbeResult::Unknown { why } => self.start_failed(Cause::ProbeFailed, why),
                }
            }
            Lease::Live(live) => match live.check {
                Some(check) if check.kind != CheckKind::Observe && self.awaits(&check.pending, fence) => {
                    self.probe_answered(check, result);
                }
                Some(_) | None => self.record_late(fence, "probed"),
            },
            Lease::Free { .. }
            | Lease::LaunchWaiting { .. }
            | Lease::Starting { .. }
            | Lease::Stopping { .. }
            | Lease::StopWaiting { .. }
            | Lease::Quarantined { .. } => self.record_late(fence, "probed"),
        }
    }

    fn observed(&mut self, fence: Fence, evidence: Evidence) {
        match &self.sandbox.lease {
            Lease::Starting { step: StartStep::Identify, pending, .. } if self.awaits(pending, fence) => {
                self.launch_identified(evidence);
            }
            Lease::Live(live) => match live.check {
                Some(check) if check.kind == CheckKind::Observe && self.awaits(&check.pending, fence) => {
                    self.observation_answered(check.pending.fence, evidence);
                }
                Some(_) | None => self.record_late(fence, "observed"),
            },
            Lease::Quarantined { pending: Some(pending), .. } if self.awaits(pending, fence) => {
                self.observed_in_quarantine(evidence);
            }
            Lease::Free { .. }
            | Lease::LaunchWaiting { .. }
            | Lease::Starting { .. }
            | Lease::Stopping { .. }
            | Lease::StopWaiting { .. }
            | Lease::Quarantined { .. } => self.record_late(fence, "observed"),
        }
    }

    /// Decides about a launch whose node died. The instance is used only if it is the leased one, complete and alone.
    fn launch_identified(&mut self, evidence: Evidence) {
        match evidence {
            Evidence::Absent(checks) => {
                let receipt = self.receipt(checks);
                let generation = self.sandbox.generation();
                if self.policy.recovery.is_some() {
                    self.absent_instance_failed(
                        Cause::StartFailed,
                        "its node died before the instance was created".into(),
                    );
                }
                self.free(receipt, generation);
            }
            Evidence::Present(instances) if self.is_leased_instance(&instances) => {
                self.verify_start(StartStep::Probe)
            }
            Evidence::Present(instances) => {
                let generations = instances.iter().map(|instance| instance.generation).collect();
                self.record(Fact::UnexpectedInstances { generations });
                self.start_failed(
                    Cause::StartFailed,
                    "the instance is not the leased one, or is incomplete".into(),
                );
            }
            Evidence::Unknown { why } => self.start_failed(Cause::StartFailed, why),
        }
    }

    fn observed_in_quarantine(&mut self, evidence: Evidence) {
        let found = match evidence {
            Evidence::Absent(checks) => {
                let receipt = self.receipt(checks);
                let generation = self.sandbox.generation();
                return self.free(receipt, generation);
            }
            Evidence::Present(instances) => format!("{} instances still exist", instances.len()),
            Evidence::Unknown { why } => why,
        };
        self.reschedule_quarantine_observation(found);
    }

    /// Keeps the instance quarantined and schedules its next observation.
    pub(crate) fn reschedule_quarantine_observation(&mut self, found: String) {
        let next = self.now.after_ms(self.policy.quarantine_observe_ms);
        if let Lease::Quarantined { generation, pending, next_observation, .. } = &mut self.sandbox.lease {
            *pending = None;
            *next_observation = next;
            let generation = *generation;
            self.record(Fact::ObservedInQuarantine { generation, found });
        }
    }

    /// Starts an observation of the quarantined instance, unless one is under way.
    pub(crate) fn begin_quarantine_observation(&mut self) {
        let observe = self.begin_effect_for(self.policy.probe_ms);
        if let Lease::Quarantined { pending: pending @ None, .. } = &mut self.sandbox.lease {
            *pending = Some(observe);
        }
    }
}
