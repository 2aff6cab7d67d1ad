//! Everything there is at one instant: the store, the control planes, the work under way, the physical things,
//! and what the checker remembers to compare with.

use pinfold_lifecycle::{
    Cause, Effect, Event, Execution, Fence, Generation, NodeId, OutcomeKind, Sandbox, Timestamp,
};

use crate::Promise;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// Ticks since the beginning.
    pub now: u8,
    pub rows: Vec<Row>,
    pub planes: Vec<Plane>,
    pub jobs: Vec<Job>,
    pub things: Vec<Thing>,
    pub left: Left,
    pub memory: Vec<Memory>,
    pub totals: Sums,
    pub broken: Broken,
}

/// What the store holds of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Row {
    Unborn,
    Stored {
        sandbox: Box<Sandbox>,
        version: u8,
    },
    /// The bytes are there and say nothing. The generation is a column of its own.
    Unreadable {
        sandbox: Box<Sandbox>,
        version: u8,
    },
    /// Versions go on from where they were, should a stray of it be found: an old decision must not land.
    Forgotten {
        version: u8,
    },
}

impl Row {
    pub fn sandbox(&self) -> Option<&Sandbox> {
        match self {
            Self::Stored { sandbox, .. } => Some(sandbox),
            Self::Unborn | Self::Unreadable { .. } | Self::Forgotten { .. } => None,
        }
    }

    pub fn version(&self) -> u8 {
        match self {
            Self::Stored { version, .. } | Self::Unreadable { version, .. } | Self::Forgotten { version } => {
                *version
            }
            Self::Unborn => 0,
        }
    }
}

/// One process with an engine. A restarted one is another node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plane {
    pub node: NodeId,
    pub condition: Condition,
    /// A decision that is made and not yet committed.
    pub held: Option<Box<Decision>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Condition {
    Awake,
    Paused,
    Crashed,
}

/// What one turn of the lifecycle came to, with what it was decided on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decision {
    pub place: u8,
    pub version: u8,
    pub at: u8,
    pub trigger: Trigger,
    pub after: Sandbox,
    pub finished: Vec<Execution>,
    pub effects: Vec<Effect>,
}

/// What made a plane decide.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Trigger {
    Created,
    Wished,
    /// A stop or a forget, which may have been asked for before.
    StopWished,
    Answered {
        event: Event,
        ticket: Fence,
    },
    /// Somebody is given a body from the pool.
    Claimed,
    /// The pool is rid of a body.
    GivenUp,
    Doubted,
    TimePassed,
    Adopted,
    Attested,
    StrayFound,
    /// The row is new although one was there: nothing of the old one can be compared.
    Unreadable,
}

/// A piece of work under way, from its commit to the delivery of its answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Job {
    pub place: u8,
    pub effect: Effect,
    pub stage: Stage,
    /// Nobody waits for the answer any more: the plane that asked has crashed.
    pub unheard: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Decided on, not begun.
    Due,
    /// A launch has made its mark and not yet asked whether it may go on.
    Marked,
    /// A launch may make the body; nothing of ours can call it back but the loss of its mark.
    Permitted,
    /// A stop has removed what it could and not yet looked.
    Removed,
    Answered(Event),
}

/// Something physical: a mark, and once it is whole the body around it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Thing {
    pub place: u8,
    pub generation: Generation,
    /// Of the launch that made it.
    pub ticket: Fence,
    pub whole: bool,
    /// When it ends itself, as far as it knows.
    pub ends_at: Timestamp,
    /// By execution.
    pub inside: [Inside; EXECUTIONS],
}

pub(crate) const EXECUTIONS: usize = 2;

/// What a body knows of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Inside {
    Never,
    Running {
        since: u8,
    },
    Exited,
    /// Killed or refused, and not to be started ever after.
    Barred,
}

/// How much may still go wrong, and how often users may still ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Left {
    pub wishes: u8,
    pub faults: u8,
    pub crashes: u8,
    pub pauses: u8,
}

/// What the checker remembers of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Memory {
    /// The highest generation that a committed lease has covered.
    pub leased_up_to: Generation,
    /// Up to here an operator's word stands in for evidence.
    pub attested_up_to: Generation,
    /// Somebody was given it.
    pub given_out: bool,
    pub cause: Option<Cause>,
    pub outcomes: [Option<(OutcomeKind, Cause)>; EXECUTIONS],
    /// When a probe last passed, and in which generation.
    pub probed: Option<(Generation, u8)>,
    /// Ticks with a plane awake that the present stop has taken.
    pub stopping: u8,
    /// Ticks with a plane awake that each execution has waited for its process, or for its end.
    pub waiting: [u8; EXECUTIONS],
}

/// What was created and proven gone, as the store adds it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sums {
    pub created: u8,
    pub destroyed: u8,
    pub pooled: u8,
}

/// The promises that a step has broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Broken(u32);

impl Broken {
    pub fn note(&mut self, promise: Promise) {
        self.0 |= 1 << promise as u32;
    }

    pub fn has(self, promise: Promise) -> bool {
        self.0 & (1 << promise as u32) != 0
    }
}

impl World {
    pub fn is_awake(&self, node: NodeId) -> bool {
        self.planes.iter().any(|plane| plane.node == node && plane.condition == Condition::Awake)
    }

    pub fn any_awake(&self) -> bool {
        self.planes.iter().any(|plane| plane.condition == Condition::Awake)
    }

    /// The bodies of one sandbox for which no operator has given his word.
    pub fn bodies(&self, place: u8) -> impl Iterator<Item = &Thing> {
        let attested = self.memory[usize::from(place)].attested_up_to;
        self.things
            .iter()
            .filter(move |thing| thing.place == place && thing.whole && thing.generation > attested)
    }

    pub fn add_job(&mut self, place: u8, effect: Effect) {
        self.add(Job { place, effect, stage: Stage::Due, unheard: false });
    }

    pub fn add(&mut self, job: Job) {
        let at = self.jobs.partition_point(|other| other.key() <= job.key());
        self.jobs.insert(at, job);
    }

    /// One answer that has been heard is not heard again, unless it comes twice.
    pub fn drop_answer(&mut self, place: u8, ticket: Fence, by: NodeId) {
        let heard = self
            .jobs
            .iter()
            .position(|job| matches!(job.stage, Stage::Answered(_)) && job.key() == (place, ticket, by));
        if let Some(index) = heard {
            self.jobs.remove(index);
        }
    }
}

impl Job {
    /// In a fixed order, so that worlds that differ in nothing else are one.
    fn key(&self) -> (u8, Fence, NodeId) {
        (self.place, self.effect.duty.ticket, self.effect.duty.by)
    }
}
