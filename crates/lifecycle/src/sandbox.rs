//! A sandbox as the store keeps it: what is wanted of it, which body it may have, what runs in it.

use serde::{Deserialize, Serialize};

use crate::{
    Cause, Check, CheckKind, Effect, EffectKind, Execution, ExecutionState, Extension, Fence, Generation,
    Lease, NodeId, PendingEffect, Receipt, SandboxId, Shape, StartStep, Timestamp,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sandbox {
    pub id: SandboxId,
    /// Who does the work that nobody else has been asked to do.
    pub owner: NodeId,
    pub life: Life,
    pub lease: Lease,
    pub created_at: Timestamp,
    /// When the body must be live. Counted anew by a restart.
    pub start_by: Timestamp,
    /// The end of its maximum life.
    pub expires_at: Timestamp,
    /// It waits in the pool and is nobody's sandbox yet. Once given out it never comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooled: Option<Box<Shape>>,
    /// How many bodies were tried for the present wish: since it was created, given out or restarted.
    pub launches: u32,
    /// Bodies that were found after the end and had to be leased again to be stopped.
    pub strays: u32,
    /// Executions that took too long or fell silent.
    #[serde(default, skip_serializing_if = "is_none_yet")]
    pub timeouts: u32,
    /// The host was restarted since the body was made.
    pub rebooted: bool,
    /// The record is to be forgotten once the body is proven gone.
    pub forget: bool,
    pub last_ticket: Fence,
    pub grace_ms: u64,
    /// What has not ended, in the order of arrival.
    pub executions: Vec<Execution>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde hands over")]
fn is_none_yet(count: &u32) -> bool {
    *count == 0
}

/// What is wanted. It goes one way only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    Wanted,
    /// The end is decided and its cause is written; the body may still be there.
    Ending {
        cause: Cause,
        asked_at: Timestamp,
    },
    /// The body was proven gone, or attested to be.
    Ended {
        cause: Cause,
        at: Timestamp,
        receipt: Box<Receipt>,
    },
}

impl Sandbox {
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.lease.generation()
    }

    /// Nothing more is going to happen to it.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.life, Life::Ended { .. }) && self.lease.is_free()
    }

    /// The end was asked for together with forgetting, and is proven.
    #[must_use]
    pub fn is_to_be_forgotten(&self) -> bool {
        self.forget && self.is_settled()
    }

    /// How many bodies' worth of sandbox were created and proven gone: a stray counts as one more of each. What
    /// was never given out is neither.
    #[must_use]
    pub fn created_and_destroyed(&self) -> (u64, u64) {
        if self.pooled.is_some() {
            return (0, 0);
        }
        let created = 1 + u64::from(self.strays);
        let alive = u64::from(!self.is_settled());
        (created, created - alive)
    }

    /// Counted apart: its body is not proven gone, and nobody was given it.
    #[must_use]
    pub fn is_in_pool(&self) -> bool {
        self.pooled.is_some() && !self.is_settled()
    }

    /// The shape it may be claimed for, sooner or later.
    #[must_use]
    pub fn waits_in_pool_of(&self) -> Option<&Shape> {
        self.pooled.as_deref().filter(|_| matches!(self.life, Life::Wanted))
    }

    /// Everything that is under way for this sandbox. What a crash interrupted is found here again.
    #[must_use]
    pub fn effects(&self) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut push = |duty: PendingEffect, work| {
            effects.push(Effect { sandbox: self.id, generation: self.generation(), duty, work })
        };
        match &self.lease {
            Lease::Starting { step, duty, .. } => push(*duty, step.work()),
            Lease::Live(live) => {
                if let Some(Check { kind, duty }) = live.check {
                    push(duty, kind.work());
                }
                if let Some(Extension { duty, .. }) = live.extension {
                    push(duty, EffectKind::Extend { ends_at: self.expires_at });
                }
            }
            Lease::Stopping { forced, duty, .. } => {
                push(*duty, EffectKind::Stop { grace_ms: if *forced { 0 } else { self.grace_ms } });
            }
            Lease::Quarantined { look: Some(duty), .. } => push(*duty, EffectKind::Look),
            Lease::Quarantined { look: None, .. }
            | Lease::Free { .. }
            | Lease::LaunchWaiting { .. }
            | Lease::StopWaiting { .. } => {}
        }
        for Execution { id, state, .. } in &self.executions {
            match state {
                ExecutionState::Starting { duty } => push(*duty, EffectKind::Exec { execution: *id }),
                ExecutionState::Running { watch, .. } => push(*watch, EffectKind::Watch { execution: *id }),
                ExecutionState::Ending { kill: Some(duty), .. } => {
                    push(*duty, EffectKind::Kill { execution: *id })
                }
                ExecutionState::Ending { kill: None, .. }
                | ExecutionState::Queued { .. }
                | ExecutionState::Interrupted
                | ExecutionState::Ended { .. } => {}
            }
        }
        effects
    }

    /// Whether the launch with this ticket may still make a body.
    #[must_use]
    pub fn permits_launch(&self, ticket: Fence) -> bool {
        matches!(self.lease, Lease::Starting { step: StartStep::Launch, duty, .. } if duty.ticket == ticket)
    }
}

impl StartStep {
    fn work(self) -> EffectKind {
        match self {
            Self::Launch => EffectKind::Launch,
            Self::Identify => EffectKind::Look,
            Self::Probe => EffectKind::Probe,
        }
    }
}

impl CheckKind {
    fn work(self) -> EffectKind {
        match self {
            Self::Ping => EffectKind::Ping,
            Self::Probe => EffectKind::Probe,
            Self::Look => EffectKind::Look,
        }
    }
}
