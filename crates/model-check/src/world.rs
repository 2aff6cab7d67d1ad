//! The complete state of the model: store, nodes, running effects, physical instances, and what the checker remembers.

use pinfold_lifecycle::{
    Cause, Effect, Event, Execution, Fence, Generation, NodeId, OutcomeKind, Sandbox, Timestamp,
};

use crate::Invariant;

/// One state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// Ticks since the start.
    pub now: u8,
    pub rows: Vec<Row>,
    pub planes: Vec<ControlPlane>,
    pub effect_runs: Vec<EffectRun>,
    pub instances: Vec<PhysicalInstance>,
    pub budget: Budget,
    pub memory: Vec<CheckerMemory>,
    pub totals: StoreTotals,
    pub violated: ViolatedInvariants,
}

/// The stored row of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Row {
    NotCreated,
    Stored {
        sandbox: Box<Sandbox>,
        version: u8,
    },
    /// The row exists but cannot be parsed. The generation is a column of its own.
    Unreadable {
        sandbox: Box<Sandbox>,
        version: u8,
    },
    /// The row was deleted. Its version is kept, so that an outdated decision is not committed if a stray leads to a
    /// new row.
    Forgotten {
        version: u8,
    },
}

impl Row {
    pub fn sandbox(&self) -> Option<&Sandbox> {
        match self {
            Self::Stored { sandbox, .. } => Some(sandbox),
            Self::NotCreated | Self::Unreadable { .. } | Self::Forgotten { .. } => None,
        }
    }

    pub fn version(&self) -> u8 {
        match self {
            Self::Stored { version, .. } | Self::Unreadable { version, .. } | Self::Forgotten { version } => {
                *version
            }
            Self::NotCreated => 0,
        }
    }
}

/// One process with an engine. After a restart it is another node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ControlPlane {
    pub node: NodeId,
    pub condition: Condition,
    /// A decision that is not yet committed.
    pub uncommitted: Option<Box<Decision>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Condition {
    Awake,
    Paused,
    Crashed,
}

/// The result of one lifecycle transition, with the version it was decided on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decision {
    pub slot: u8,
    pub version: u8,
    pub at: u8,
    pub trigger: Trigger,
    pub after: Sandbox,
    pub finished: Vec<Execution>,
    pub effects: Vec<Effect>,
}

/// Why a node decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Trigger {
    Created,
    Requested,
    /// A stop or forget request, possibly a repeated one.
    StopRequested,
    Completed {
        event: Event,
        fence: Fence,
    },
    /// A user claims a pooled instance.
    Claimed,
    /// The pool discards an instance.
    Discarded,
    Doubted,
    TimePassed,
    Adopted,
    Attested,
    StrayFound,
    /// The row is replaced because it was unreadable. It cannot be compared with the old one.
    Unreadable,
}

/// A running effect, from its commit to the delivery of its result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EffectRun {
    pub slot: u8,
    pub effect: Effect,
    pub stage: Stage,
    /// The node that started it has crashed, so the result is dropped.
    pub abandoned: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Committed, not started.
    Pending,
    /// A launch has written its marker and not yet checked its permit.
    MarkerWritten,
    /// A launch may create the instance. Only the removal of its marker can prevent that.
    Permitted,
    /// A stop has removed what it could and not yet observed the result.
    Removed,
    Completed(Event),
}

/// A physical instance: a marker at first, then complete.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PhysicalInstance {
    pub slot: u8,
    pub generation: Generation,
    /// The fence of its launch.
    pub fence: Fence,
    pub whole: bool,
    /// The deadline at which it ends itself.
    pub ends_at: Timestamp,
    /// By execution.
    pub processes: [ProcessState; EXECUTIONS],
}

pub(crate) const EXECUTIONS: usize = 2;

/// What an instance knows of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProcessState {
    NotStarted,
    Running {
        since: u8,
    },
    Exited,
    /// Killed or refused. It will never be started.
    Blocked,
}

/// How many faults and requests may still occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    pub requests: u8,
    pub faults: u8,
    pub crashes: u8,
    pub pauses: u8,
}

/// What the checker remembers of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CheckerMemory {
    /// The highest generation that a committed lease has covered.
    pub leased_up_to: Generation,
    /// Up to this generation an operator's attestation replaces evidence.
    pub attested_up_to: Generation,
    /// It was claimed.
    pub claimed: bool,
    pub cause: Option<Cause>,
    pub outcomes: [Option<(OutcomeKind, Cause)>; EXECUTIONS],
    /// When a probe last passed, and in which generation.
    pub probed: Option<(Generation, u8)>,
    /// Ticks with a running node that the current stop has taken.
    pub stopping: u8,
    /// Ticks with a running node that each execution has waited for its start or its end.
    pub waiting: [u8; EXECUTIONS],
}

/// The store's totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StoreTotals {
    pub created: u8,
    pub destroyed: u8,
    pub pooled: u8,
}

/// The invariants that a transition has violated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ViolatedInvariants(u32);

impl ViolatedInvariants {
    pub fn note(&mut self, invariant: Invariant) {
        self.0 |= 1 << invariant as u32;
    }

    pub fn has(self, invariant: Invariant) -> bool {
        self.0 & (1 << invariant as u32) != 0
    }
}

impl World {
    pub fn is_awake(&self, node: NodeId) -> bool {
        self.planes.iter().any(|plane| plane.node == node && plane.condition == Condition::Awake)
    }

    pub fn any_awake(&self) -> bool {
        self.planes.iter().any(|plane| plane.condition == Condition::Awake)
    }

    /// The complete instances of one sandbox that are not covered by an attestation.
    pub fn complete_instances(&self, slot: u8) -> impl Iterator<Item = &PhysicalInstance> {
        let attested = self.memory[usize::from(slot)].attested_up_to;
        self.instances
            .iter()
            .filter(move |instance| instance.slot == slot && instance.whole && instance.generation > attested)
    }

    pub fn start_effect(&mut self, slot: u8, effect: Effect) {
        self.add(EffectRun { slot, effect, stage: Stage::Pending, abandoned: false });
    }

    pub fn add(&mut self, run: EffectRun) {
        let at = self.effect_runs.partition_point(|other| other.key() <= run.key());
        self.effect_runs.insert(at, run);
    }

    /// Removes a delivered result.
    pub fn drop_result(&mut self, slot: u8, fence: Fence, by: NodeId) {
        let heard = self
            .effect_runs
            .iter()
            .position(|run| matches!(run.stage, Stage::Completed(_)) && run.key() == (slot, fence, by));
        if let Some(index) = heard {
            self.effect_runs.remove(index);
        }
    }
}

impl EffectRun {
    /// Sort key: effects are kept in a fixed order, so that equal states compare equal.
    fn key(&self) -> (u8, Fence, NodeId) {
        (self.slot, self.effect.pending.fence, self.effect.pending.node)
    }
}
