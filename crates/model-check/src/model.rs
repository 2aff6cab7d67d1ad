//! The bounds of a model, and its interface to the checker.

use pinfold_lifecycle::{Context, ExecutionId, FileTransfers, NodeId, Policy, SandboxId, Timestamp};
use stateright::{Model, Property};

use crate::world::{Budget, CheckerMemory, Condition, ControlPlane, Row, StoreTotals};
use crate::{Action, Invariant, World};

/// One model: its policy, its bounds and the faults that may occur.
#[derive(Debug, Clone)]
pub struct SmallModel {
    pub name: &'static str,
    pub policy: Policy,
    pub bounds: Bounds,
    pub flaw: Option<Flaw>,
}

#[derive(Debug, Clone)]
pub struct Bounds {
    pub sandboxes: u8,
    /// Admission limit.
    pub limit: u8,
    pub planes: u8,
    pub ticks: u8,
    /// Effects that run at the same time. States with more are not explored.
    pub effect_runs: usize,
    pub requests: u8,
    pub request_kinds: &'static [ExternalRequest],
    pub faults: u8,
    pub crashes: u8,
    pub pauses: u8,
    /// Whether deciding and committing are separate steps.
    pub decides_apart: bool,
    /// Whether a process may exit by itself.
    pub processes_end: bool,
    /// Whether sandboxes are created in the pool and have to be claimed.
    pub pooled: bool,
    /// The files of every execution.
    pub transfers: FileTransfers,
}

/// A request from a user, an operator or a reconcile run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExternalRequest {
    Execute(u8),
    Cancel(u8),
    Stop,
    StopForShutdown,
    StopForced,
    Forget,
    Restart,
    Attest,
    KeepAlive,
    /// With a maximum life longer than that of the pool (`Claim`) or shorter (`ClaimShort`).
    Claim,
    ClaimShort,
    /// The pool no longer needs the instance.
    DiscardPooled,
    Doubt,
    /// The stored row is overwritten with unreadable data.
    CorruptRow,
}

/// A fault of the environment that the lifecycle relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// Effects start before their decision is committed.
    ActBeforeCommit,
    /// A decision is committed although the row has changed since.
    CommitWithoutCompare,
    /// The totals are updated before the change that they count is committed.
    CountBeforeCommit,
    /// Capacity is checked before the transaction that creates the sandbox.
    AdmitBeforeTransaction,
}

/// Start of the model's clock: high enough that fences derived from the clock exceed all fences counted from one.
const BEGINNING: i64 = 1_000;

impl SmallModel {
    pub(crate) fn time(&self, tick: u8) -> Timestamp {
        Timestamp(BEGINNING + i64::from(tick))
    }

    /// The claim brings its own policy, with a different maximum life.
    pub(crate) fn claim_policy(&self, request: ExternalRequest) -> Policy {
        let max_life_ms = match request {
            ExternalRequest::ClaimShort => self.policy.max_life_ms / 2,
            _ => self.policy.max_life_ms * 2,
        };
        Policy { max_life_ms, ..self.policy.clone() }
    }

    pub(crate) fn context(&self, tick: u8, node: NodeId) -> Context<'_> {
        Context { now: self.time(tick), node, policy: &self.policy }
    }

    /// The longest time that a stop may take until the sandbox is free or quarantined.
    pub(crate) fn max_stop_ms(&self) -> u64 {
        let attempts = u64::from(self.policy.stop_attempts) * self.policy.stop_attempt_ms;
        let waits: u64 = (1..self.policy.stop_attempts).map(|attempt| self.policy.backoff_ms(attempt)).sum();
        attempts + waits
    }
}

pub(crate) fn sandbox_id(slot: u8) -> SandboxId {
    SandboxId(u128::from(slot))
}

pub(crate) fn execution_id(number: u8) -> ExecutionId {
    ExecutionId(u128::from(number))
}

impl Model for SmallModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let planes = (0..self.bounds.planes).map(|number| ControlPlane {
            node: NodeId(u128::from(number)),
            condition: Condition::Awake,
            uncommitted: None,
        });
        let sandboxes = usize::from(self.bounds.sandboxes);
        vec![World {
            now: 0,
            rows: vec![Row::NotCreated; sandboxes],
            planes: planes.collect(),
            effect_runs: Vec::new(),
            instances: Vec::new(),
            budget: Budget {
                requests: self.bounds.requests,
                faults: self.bounds.faults,
                crashes: self.bounds.crashes,
                pauses: self.bounds.pauses,
            },
            memory: vec![CheckerMemory::default(); sandboxes],
            totals: StoreTotals::default(),
            violated: crate::world::ViolatedInvariants::default(),
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.list_actions(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.perform(&mut next, action);
        next.canonicalize();
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        Invariant::properties()
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.now <= self.bounds.ticks && world.effect_runs.len() <= self.bounds.effect_runs
    }
}
