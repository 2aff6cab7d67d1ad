//! Facts from the world. A fact cannot be refused; one that nobody waits for is recorded and changes nothing.

use crate::turn::Turn;
use crate::{
    Cause, CheckKind, Context, Evidence, ExecutionId, Fact, Fence, Guard, Lease, Outcome, PendingEffect,
    Probed, Sandbox, StartStep, StopOutcome, Transition,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    Launched {
        ticket: Fence,
    },
    /// The launch came to nothing, or to something that is not a whole body.
    LaunchFailed {
        ticket: Fence,
        why: String,
    },
    Probed {
        ticket: Fence,
        probed: Probed,
    },
    Looked {
        ticket: Fence,
        evidence: Evidence,
    },
    Stopped {
        ticket: Fence,
        outcome: StopOutcome,
    },
    /// The body knows when it ends.
    Extended {
        ticket: Fence,
    },
    /// The body is not there to be told when it ends.
    ExtendFailed {
        ticket: Fence,
        why: String,
    },
    ExecutionStarted {
        ticket: Fence,
        execution: ExecutionId,
    },
    /// Its process was never made, for certain.
    ExecutionRefused {
        ticket: Fence,
        execution: ExecutionId,
        cause: Cause,
        why: String,
    },
    ExecutionEnded {
        ticket: Fence,
        execution: ExecutionId,
        outcome: Outcome,
    },
    /// After a kill: its process is proven gone and will not be made.
    ExecutionGone {
        ticket: Fence,
        execution: ExecutionId,
    },
    /// The body is not what it was believed to be, says somebody who did not look at all of it.
    Doubted {
        why: String,
    },
    /// Somebody has tried the body, and it did not fare as is believed of it.
    Disagreed {
        why: String,
    },
    /// Time has passed.
    TimePassed,
}

/// Takes in a fact.
#[must_use]
pub fn step(sandbox: &Sandbox, event: Event, ctx: Context<'_>) -> Transition {
    let mut turn = Turn::begin(sandbox, ctx);
    turn.take(event);
    turn.finish()
}

impl Turn<'_> {
    fn take(&mut self, event: Event) {
        let late = match event {
            Event::Launched { ticket } if self.launching(ticket) => return self.launched(),
            Event::LaunchFailed { ticket, why } if self.launching(ticket) => {
                return self.start_failed(Cause::StartFailed, why);
            }
            Event::Probed { ticket, probed } => return self.probed(ticket, probed),
            Event::Looked { ticket, evidence } => return self.looked(ticket, evidence),
            Event::Stopped { ticket, outcome } if self.stopping(ticket) => {
                return self.stop_answered(outcome);
            }
            Event::Extended { ticket } if self.extending(ticket) => return self.extended(),
            Event::ExtendFailed { ticket, why } if self.extending(ticket) => {
                return self.extension_failed(why);
            }
            Event::ExecutionStarted { ticket, execution } => {
                return self.execution_started(ticket, execution);
            }
            Event::ExecutionRefused { ticket, execution, cause, why } => {
                return self.execution_refused(ticket, execution, Outcome::failed(cause, why));
            }
            Event::ExecutionEnded { ticket, execution, outcome } => {
                return self.execution_ended(ticket, execution, outcome);
            }
            Event::ExecutionGone { ticket, execution } => return self.execution_gone(ticket, execution),
            Event::Doubted { why } => return self.doubted(why, CheckKind::Look),
            Event::Disagreed { why } => return self.doubted(why, CheckKind::Probe),
            Event::TimePassed => return self.time_passed(),
            Event::Launched { ticket } => (ticket, "launched"),
            Event::LaunchFailed { ticket, .. } => (ticket, "launch failed"),
            Event::Stopped { ticket, .. } => (ticket, "stopped"),
            Event::Extended { ticket } => (ticket, "extended"),
            Event::ExtendFailed { ticket, .. } => (ticket, "extend failed"),
        };
        self.late(late.0, late.1);
    }

    pub(crate) fn late(&mut self, ticket: Fence, answer: &str) {
        self.record(Fact::LateAnswer { ticket, answer: answer.to_owned() });
    }

    /// Whether the answer with this ticket is the one that is waited for.
    pub(crate) fn awaits(&self, duty: &PendingEffect, ticket: Fence) -> bool {
        duty.ticket == ticket || !self.holds(Guard::StaleAnswersIgnored)
    }

    fn launching(&self, ticket: Fence) -> bool {
        matches!(&self.sandbox.lease, Lease::Starting { step: StartStep::Launch, duty, .. } if self.awaits(duty, ticket))
    }

    fn stopping(&self, ticket: Fence) -> bool {
        matches!(&self.sandbox.lease, Lease::Stopping { duty, .. } if self.awaits(duty, ticket))
    }

    fn probed(&mut self, ticket: Fence, probed: Probed) {
        match &self.sandbox.lease {
            Lease::Starting { step: StartStep::Probe, duty, .. } if self.awaits(duty, ticket) => match probed
            {
                Probed::Passed => self.became_live(duty.asked_at),
                Probed::Failed(failure) => self.start_failed(Cause::ProbeFailed, format!("{failure:?}")),
                Probed::Unknown { why } => self.start_failed(Cause::ProbeFailed, why),
            },
            Lease::Live(live) => match live.check {
                Some(check) if check.kind != CheckKind::Look && self.awaits(&check.duty, ticket) => {
                    self.probe_answered(check, probed);
                }
                Some(_) | None => self.late(ticket, "probed"),
            },
            Lease::Free { .. }
            | Lease::LaunchWaiting { .. }
            | Lease::Starting { .. }
            | Lease::Stopping { .. }
            | Lease::StopWaiting { .. }
            | Lease::Quarantined { .. } => self.late(ticket, "probed"),
        }
    }

    fn looked(&mut self, ticket: Fence, evidence: Evidence) {
        match &self.sandbox.lease {
            Lease::Starting { step: StartStep::Identify, duty, .. } if self.awaits(duty, ticket) => {
                self.identified(evidence);
            }
            Lease::Live(live) => match live.check {
                Some(check) if check.kind == CheckKind::Look && self.awaits(&check.duty, ticket) => {
                    self.look_answered(check.duty.ticket, evidence);
                }
                Some(_) | None => self.late(ticket, "looked"),
            },
            Lease::Quarantined { look: Some(duty), .. } if self.awaits(duty, ticket) => {
                self.looked_in_quarantine(evidence);
            }
            Lease::Free { .. }
            | Lease::LaunchWaiting { .. }
            | Lease::Starting { .. }
            | Lease::Stopping { .. }
            | Lease::StopWaiting { .. }
            | Lease::Quarantined { .. } => self.late(ticket, "looked"),
        }
    }

    /// A launch whose node died: its body is used only if it is the one that was leased, whole and alone.
    fn identified(&mut self, evidence: Evidence) {
        match evidence {
            Evidence::Absent(checks) => {
                let receipt = self.receipt(checks);
                let generation = self.sandbox.generation();
                if self.policy.recovery.is_some() {
                    self.fail_without_body(Cause::StartFailed, "its node died before it was made".into());
                }
                self.free(receipt, generation);
            }
            Evidence::Present(bodies) if self.is_ours(&bodies) => self.prove_start(StartStep::Probe),
            Evidence::Present(bodies) => {
                let generations = bodies.iter().map(|body| body.generation).collect();
                self.record(Fact::UnexpectedBodies { generations });
                self.start_failed(
                    Cause::StartFailed,
                    "the body is not the one that was leased, or is not whole".into(),
                );
            }
            Evidence::Unknown { why } => self.start_failed(Cause::StartFailed, why),
        }
    }

    fn looked_in_quarantine(&mut self, evidence: Evidence) {
        let found = match evidence {
            Evidence::Absent(checks) => {
                let receipt = self.receipt(checks);
                let generation = self.sandbox.generation();
                return self.free(receipt, generation);
            }
            Evidence::Present(bodies) => format!("{} still there", bodies.len()),
            Evidence::Unknown { why } => why,
        };
        self.look_again_later(found);
    }

    /// Quarantine goes on; so do the looks.
    pub(crate) fn look_again_later(&mut self, found: String) {
        let slowly = self.now.after_ms(self.policy.quarantine_look_ms);
        if let Lease::Quarantined { generation, look, next_look, .. } = &mut self.sandbox.lease {
            *look = None;
            *next_look = slowly;
            let generation = *generation;
            self.record(Fact::LookedInQuarantine { generation, found });
        }
    }

    /// Starts a look at what is quarantined, unless one is under way.
    pub(crate) fn look_in_quarantine(&mut self) {
        let duty = self.duty_for(self.policy.probe_ms);
        if let Lease::Quarantined { look: look @ None, .. } = &mut self.sandbox.lease {
            *look = Some(duty);
        }
    }
}
