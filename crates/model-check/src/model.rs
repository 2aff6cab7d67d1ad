//! How small a world is, and how it is presented to the checker.

use pinfold_lifecycle::{Context, ExecutionId, NodeId, Policy, SandboxId, Timestamp};
use stateright::{Model, Property};

use crate::world::{Condition, Left, Memory, Plane, Row, Sums};
use crate::{Action, Promise, World};

/// One small world: its rules, its size and how much may go wrong in it.
#[derive(Debug, Clone)]
pub struct Small {
    pub name: &'static str,
    pub policy: Policy,
    pub bounds: Bounds,
    pub flaw: Option<Flaw>,
}

#[derive(Debug, Clone)]
pub struct Bounds {
    pub sandboxes: u8,
    /// How many sandboxes are admitted at once.
    pub limit: u8,
    pub planes: u8,
    pub ticks: u8,
    /// Work under way at once; beyond it nothing is explored.
    pub jobs: usize,
    pub wishes: u8,
    pub wish_list: &'static [Wish],
    pub faults: u8,
    pub crashes: u8,
    pub pauses: u8,
    /// Whether deciding and committing are two steps.
    pub decides_apart: bool,
    /// Whether a process may end by itself.
    pub processes_end: bool,
    /// Whether what is made waits in the pool until it is claimed.
    pub pooled: bool,
}

/// What a user, an operator or a passer-by may want.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wish {
    Execute(u8),
    Cancel(u8),
    Stop,
    StopForShutdown,
    StopForced,
    Forget,
    Restart,
    Attest,
    KeepAlive,
    /// For a life that ends after the one in the pool, or before it.
    Claim,
    ClaimShort,
    /// The pool has no use for it any more.
    GiveUp,
    Doubt,
    /// A row is overwritten with what cannot be read.
    Spoil,
}

/// Something wrong with the world around the lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// Effects are begun before the decision that calls for them is committed.
    ActBeforeCommit,
    /// A decision lands whatever the row has become since.
    CommitWithoutCompare,
    /// What is created and destroyed is added up before the change that it counts is committed.
    CountBeforeCommit,
    /// Room is looked for before the transaction that creates.
    AdmitBeforeTransaction,
}

/// Late enough that a ticket counted from the clock is above every ticket counted from one.
const BEGINNING: i64 = 1_000;

impl Small {
    pub(crate) fn time(&self, tick: u8) -> Timestamp {
        Timestamp(BEGINNING + i64::from(tick))
    }

    /// Whoever claims a body has his own idea of how long it may live.
    pub(crate) fn policy_of_claim(&self, wish: Wish) -> Policy {
        let max_life_ms = match wish {
            Wish::ClaimShort => self.policy.max_life_ms / 2,
            _ => self.policy.max_life_ms * 2,
        };
        Policy { max_life_ms, ..self.policy.clone() }
    }

    pub(crate) fn context(&self, tick: u8, node: NodeId) -> Context<'_> {
        Context { now: self.time(tick), node, policy: &self.policy }
    }

    /// The longest that a stop may take before the sandbox is free or quarantined.
    pub(crate) fn longest_stop(&self) -> u64 {
        let attempts = u64::from(self.policy.stop_attempts) * self.policy.stop_attempt_ms;
        let waits: u64 = (1..self.policy.stop_attempts).map(|attempt| self.policy.backoff_ms(attempt)).sum();
        attempts + waits
    }
}

pub(crate) fn sandbox_id(place: u8) -> SandboxId {
    SandboxId(u128::from(place))
}

pub(crate) fn execution_id(number: u8) -> ExecutionId {
    ExecutionId(u128::from(number))
}

impl Model for Small {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let planes = (0..self.bounds.planes).map(|number| Plane {
            node: NodeId(u128::from(number)),
            condition: Condition::Awake,
            held: None,
        });
        let sandboxes = usize::from(self.bounds.sandboxes);
        vec![World {
            now: 0,
            rows: vec![Row::Unborn; sandboxes],
            planes: planes.collect(),
            jobs: Vec::new(),
            things: Vec::new(),
            left: Left {
                wishes: self.bounds.wishes,
                faults: self.bounds.faults,
                crashes: self.bounds.crashes,
                pauses: self.bounds.pauses,
            },
            memory: vec![Memory::default(); sandboxes],
            totals: Sums::default(),
            broken: crate::world::Broken::default(),
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.list(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.perform(&mut next, action);
        next.leave_out_what_nothing_reads();
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        Promise::properties()
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.now <= self.bounds.ticks && world.jobs.len() <= self.bounds.jobs
    }
}
