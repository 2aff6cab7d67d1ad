//! The sandbox row, as the store keeps it.

use serde::{Deserialize, Serialize};

use crate::{
    Cause, Check, CheckKind, Effect, EffectKind, Execution, ExecutionState, Extension, Fence, Generation,
    Lease, NodeId, PendingEffect, Receipt, SandboxId, Shape, StartStep, Timestamp,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sandbox {
    pub id: SandboxId,
    /// The node responsible for this sandbox. A pending effect names the node that runs it, which may be another.
    pub owner: NodeId,
    pub life: Life,
    pub lease: Lease,
    pub created_at: Timestamp,
    /// When the instance must be live. A restart sets it anew.
    pub start_by: Timestamp,
    /// The end of its maximum life.
    pub expires_at: Timestamp,
    /// Set while the instance waits in the pool. Cleared when it is claimed, and never set again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooled: Option<Box<Shape>>,
    /// Launches since the sandbox was created, claimed or restarted.
    pub launches: u32,
    /// Instances found after the end, which were leased again to be stopped.
    pub strays: u32,
    /// Executions that exceeded their time or inactivity limit.
    pub timeouts: u32,
    /// The host was rebooted since the instance was launched.
    pub rebooted: bool,
    /// Delete the row once the instance is proven gone.
    pub forget: bool,
    /// Why it ended, in words, where its cause alone does not tell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end_reason: Option<String>,
    pub last_fence: Fence,
    pub grace_ms: u64,
    /// Executions that have not ended, in order of arrival.
    pub executions: Vec<Execution>,
}

/// Whether the sandbox is wanted. It only moves forward: `Wanted → Ending → Ended`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    Wanted,
    /// The end is decided and its cause recorded; the instance may still exist.
    Ending {
        cause: Cause,
        requested_at: Timestamp,
    },
    /// The instance is proven or attested to be gone.
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

    /// Ended, and the lease is free: nothing more will happen.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.life, Life::Ended { .. }) && self.lease.is_free()
    }

    /// Settled, and the end was requested together with deleting the row.
    #[must_use]
    pub fn is_to_be_forgotten(&self) -> bool {
        self.forget && self.is_settled()
    }

    /// Its contribution to the totals of created and destroyed sandboxes. A stray counts as one more of each; a pooled
    /// instance counts as neither.
    #[must_use]
    pub fn created_and_destroyed(&self) -> (u64, u64) {
        if self.pooled.is_some() {
            return (0, 0);
        }
        let created = 1 + u64::from(self.strays);
        let alive = u64::from(!self.is_settled());
        (created, created - alive)
    }

    /// Whether it counts as a pooled instance: never claimed, and not proven gone.
    #[must_use]
    pub fn is_in_pool(&self) -> bool {
        self.pooled.is_some() && !self.is_settled()
    }

    /// The shape for which it can be claimed, now or once it is live.
    #[must_use]
    pub fn pool_shape(&self) -> Option<&Shape> {
        self.pooled.as_deref().filter(|_| matches!(self.life, Life::Wanted))
    }

    /// All pending effects. After a crash the engine finds the unfinished ones here.
    #[must_use]
    pub fn effects(&self) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut push = |pending: PendingEffect, work| {
            effects.push(Effect { sandbox: self.id, generation: self.generation(), pending, kind: work })
        };
        match &self.lease {
            Lease::Starting { step, pending, .. } => push(*pending, step.effect_kind()),
            Lease::Live(live) => {
                if let Some(Check { kind, pending }) = live.check {
                    push(pending, kind.effect_kind());
                }
                if let Some(Extension { pending, .. }) = live.extension {
                    push(pending, EffectKind::Extend { ends_at: self.expires_at });
                }
            }
            Lease::Stopping { forced, pending, .. } => {
                push(*pending, EffectKind::Stop { grace_ms: if *forced { 0 } else { self.grace_ms } });
            }
            Lease::Quarantined { pending: Some(pending), .. } => push(*pending, EffectKind::Observe),
            Lease::Quarantined { pending: None, .. }
            | Lease::Free { .. }
            | Lease::LaunchWaiting { .. }
            | Lease::StopWaiting { .. } => {}
        }
        for Execution { id, state, .. } in &self.executions {
            match state {
                ExecutionState::Preparing { pending } => {
                    push(*pending, EffectKind::PutFiles { execution: *id })
                }
                ExecutionState::Starting { pending } => push(*pending, EffectKind::Exec { execution: *id }),
                ExecutionState::Running { watch, .. } => push(*watch, EffectKind::Watch { execution: *id }),
                ExecutionState::Ending { kill: Some(pending), .. } => {
                    push(*pending, EffectKind::Kill { execution: *id })
                }
                ExecutionState::Collecting { pending, .. } => {
                    push(*pending, EffectKind::Collect { execution: *id })
                }
                ExecutionState::Ending { kill: None, .. }
                | ExecutionState::Queued { .. }
                | ExecutionState::Interrupted
                | ExecutionState::Ended { .. } => {}
            }
        }
        effects
    }

    /// Whether the launch with this fence may still create an instance.
    #[must_use]
    pub fn permits_launch(&self, fence: Fence) -> bool {
        matches!(self.lease, Lease::Starting { step: StartStep::Launch, pending, .. } if pending.fence == fence)
    }
}

impl StartStep {
    fn effect_kind(self) -> EffectKind {
        match self {
            Self::Launch => EffectKind::Launch,
            Self::Identify => EffectKind::Observe,
            Self::Probe => EffectKind::Probe,
        }
    }
}

impl CheckKind {
    fn effect_kind(self) -> EffectKind {
        match self {
            Self::Ping => EffectKind::Ping,
            Self::Probe => EffectKind::Probe,
            Self::Observe => EffectKind::Observe,
        }
    }
}
