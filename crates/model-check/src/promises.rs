//! The promises that are checked in every state, named as in the list of invariants.

use pinfold_lifecycle::{ExecutionState, Sandbox, State, invariants, status};
use stateright::Property;

use crate::model::execution_id;
use crate::world::{Inside, Row};
use crate::{Small, World};

macro_rules! promises {
    ($($promise:ident = $name:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Promise { $($promise,)* }

        impl Promise {
            pub const ALL: &[Promise] = &[$(Promise::$promise,)*];

            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Promise::$promise => $name,)* }
            }

            pub(crate) fn properties() -> Vec<Property<Small>> {
                vec![$(Property::always($name, |small: &Small, world: &World| {
                    Promise::$promise.is_kept(small, world)
                }),)*]
            }
        }
    };
}

promises! {
    IntentFirst = "intent first",
    OnlyEvidenceFrees = "only evidence frees",
    OneBody = "one body",
    StopWins = "stop wins",
    OutcomeIsWrittenOnce = "an outcome is written once",
    OnlyTheStoppedEnds = "a stop ends only what was to be stopped",
    ReadyMeansProbed = "ready means probed",
    NoWaitWithoutADeadline = "no wait without a deadline",
    StopEnds = "what is being ended ends",
    QueuedEnds = "queued ends",
    StaleAnswersChangeNothing = "stale answers change nothing",
    AgainIsSafe = "again is safe",
    LimitsHoldTogether = "limits hold together",
    OneCauseOfDeath = "one cause of death",
    SumIsRight = "the sum is right",
    FailClosed = "fail closed",
    AcceptedWorkGoesOn = "accepted work goes on",
    TheLivingAreNotLost = "the living are not lost",
    NoProcessWithoutItsExecution = "no process without its execution",
    GivenOutOnce = "given out once",
    GivenOutProven = "given out means proven",
    ItsEndIsKept = "its end is kept",
    TriesAreBounded = "tries are bounded",
    RowsAreSound = "rows are sound",
}

impl Promise {
    /// The promise that a broken rule speaks of: rules begin with its name.
    pub(crate) fn that_says(rule: &str) -> Self {
        let named = Self::ALL.iter().find(|promise| rule.starts_with(promise.name()));
        named.copied().unwrap_or(Self::RowsAreSound)
    }

    pub(crate) fn is_kept(self, small: &Small, world: &World) -> bool {
        if world.broken.has(self) {
            return false;
        }
        match self {
            Self::IntentFirst => nothing_without_lease(world) && row_keeps(self, small, world),
            Self::OnlyEvidenceFrees => places(world).all(|place| {
                row(world, place).sandbox().is_none_or(|sandbox| {
                    sandbox.lease.may_have_a_body() || world.bodies(place).next().is_none()
                })
            }),
            Self::OneBody => {
                places(world).all(|place| world.bodies(place).count() <= 1) && row_keeps(self, small, world)
            }
            Self::FailClosed => places(world)
                .filter(|place| matches!(row(world, *place), Row::Forgotten { .. }))
                .all(|place| world.bodies(place).next().is_none()),
            Self::ReadyMeansProbed => places(world).all(|place| ready_is_probed(small, world, place)),
            Self::NoProcessWithoutItsExecution => {
                places(world).all(|place| every_process_belongs(world, place))
            }
            Self::LimitsHoldTogether => {
                present(world) + pooled(world) <= u64::from(small.bounds.limit) + strays(world)
                    && row_keeps(self, small, world)
            }
            Self::SumIsRight => {
                present(world) + u64::from(world.totals.destroyed) == u64::from(world.totals.created)
                    && pooled(world) == u64::from(world.totals.pooled)
            }
            Self::ItsEndIsKept => places(world).all(|place| nothing_runs_past_its_end(world, place)),
            Self::RowsAreSound
            | Self::StopWins
            | Self::NoWaitWithoutADeadline
            | Self::GivenOutOnce
            | Self::TriesAreBounded => row_keeps(self, small, world),
            Self::GivenOutProven
            | Self::OutcomeIsWrittenOnce
            | Self::OnlyTheStoppedEnds
            | Self::StopEnds
            | Self::QueuedEnds
            | Self::StaleAnswersChangeNothing
            | Self::AgainIsSafe
            | Self::OneCauseOfDeath
            | Self::AcceptedWorkGoesOn
            | Self::TheLivingAreNotLost => true,
        }
    }
}

fn places(world: &World) -> impl Iterator<Item = u8> {
    (0u8..).take(world.rows.len())
}

fn row(world: &World, place: u8) -> &Row {
    &world.rows[usize::from(place)]
}

fn row_keeps(promise: Promise, small: &Small, world: &World) -> bool {
    world.rows.iter().filter_map(Row::sandbox).all(|sandbox| {
        invariants::broken(sandbox, &small.policy).is_none_or(|rule| Promise::that_says(rule) != promise)
    })
}

/// A body has a lease of its own generation; even a mark has had one.
fn nothing_without_lease(world: &World) -> bool {
    world.things.iter().all(|thing| {
        let memory = &world.memory[usize::from(thing.place)];
        let leased = match row(world, thing.place) {
            Row::Stored { sandbox, .. } | Row::Unreadable { sandbox, .. } => {
                sandbox.lease.may_have_a_body() && sandbox.generation() == thing.generation
            }
            Row::Unborn | Row::Forgotten { .. } => false,
        };
        let attested = thing.generation <= memory.attested_up_to;
        thing.generation <= memory.leased_up_to && (!thing.whole || leased || attested)
    })
}

fn ready_is_probed(small: &Small, world: &World, place: u8) -> bool {
    let Some(sandbox) = row(world, place).sandbox() else {
        return true;
    };
    let shown = status(sandbox, small.time(world.now), &small.policy).state;
    if !matches!(shown, State::Ready | State::Running) {
        return true;
    }
    world.memory[usize::from(place)].probed.is_some_and(|(generation, at)| {
        let age = u64::from(world.now - at);
        generation == sandbox.generation() && age <= small.policy.evidence_ms
    })
}

fn every_process_belongs(world: &World, place: u8) -> bool {
    let Some(sandbox) = row(world, place).sandbox() else {
        return true;
    };
    world.bodies(place).all(|body| {
        (0u8..).zip(body.inside).all(|(number, inside)| {
            !matches!(inside, Inside::Running { .. })
                || sandbox.executions.iter().any(|execution| {
                    execution.id == execution_id(number)
                        && !matches!(execution.state, ExecutionState::Queued { .. })
                })
        })
    })
}

/// Nothing untrusted runs in a body that would live longer than its sandbox may, were everybody else dead.
fn nothing_runs_past_its_end(world: &World, place: u8) -> bool {
    let Some(sandbox) = row(world, place).sandbox() else {
        return true;
    };
    world.bodies(place).all(|body| {
        let runs = body.inside.iter().any(|inside| matches!(inside, Inside::Running { .. }));
        !runs || body.ends_at <= sandbox.expires_at
    })
}

/// Sandboxes that are not proven gone.
fn present(world: &World) -> u64 {
    rows(world).filter(|sandbox| !sandbox.is_settled() && sandbox.pooled.is_none()).count() as u64
}

/// Bodies that nobody was given and that are not proven gone.
fn pooled(world: &World) -> u64 {
    rows(world).filter(|sandbox| sandbox.is_in_pool()).count() as u64
}

fn rows(world: &World) -> impl Iterator<Item = &Sandbox> {
    world.rows.iter().filter_map(|row| match row {
        Row::Stored { sandbox, .. } | Row::Unreadable { sandbox, .. } => Some(sandbox.as_ref()),
        Row::Unborn | Row::Forgotten { .. } => None,
    })
}

/// What was found and had to be leased is there whether there is room or not.
fn strays(world: &World) -> u64 {
    world
        .rows
        .iter()
        .filter_map(Row::sandbox)
        .map(|sandbox| {
            let orphan = matches!(
                sandbox.life,
                pinfold_lifecycle::Life::Ending { cause: pinfold_lifecycle::Cause::Orphan, .. }
            );
            u64::from(sandbox.strays) + u64::from(orphan)
        })
        .sum()
}
