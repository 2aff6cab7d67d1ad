//! The invariants that are checked in every state.

use pinfold_lifecycle::{Sandbox, State, invariants, status};
use stateright::Property;

use crate::model::execution_id;
use crate::world::{ProcessState, Row};
use crate::{SmallModel, World};

macro_rules! invariants {
    ($($invariant:ident = $name:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Invariant { $($invariant,)* }

        impl Invariant {
            pub const ALL: &[Invariant] = &[$(Invariant::$invariant,)*];

            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Invariant::$invariant => $name,)* }
            }

            pub(crate) fn properties() -> Vec<Property<SmallModel>> {
                vec![$(Property::always($name, |small: &SmallModel, world: &World| {
                    Invariant::$invariant.holds(small, world)
                }),)*]
            }
        }
    };
}

invariants! {
    IntentFirst = "intent first",
    OnlyEvidenceFrees = "only evidence frees",
    OneInstance = "one instance",
    StopWins = "stop wins",
    OutcomeIsWrittenOnce = "an outcome is written once",
    StopAffectsOnlyItsTarget = "a stop affects only its target",
    ReadyMeansProbed = "ready means probed",
    NoWaitWithoutADeadline = "no wait without a deadline",
    StopEnds = "every stop ends",
    QueuedEnds = "queued ends",
    StaleAnswersChangeNothing = "stale answers change nothing",
    AgainIsSafe = "again is safe",
    LimitsHoldTogether = "limits hold together",
    OneCauseOfDeath = "one cause of death",
    SumIsRight = "the sum is right",
    FailClosed = "fail closed",
    AcceptedWorkContinues = "accepted work continues",
    RunningExecutionsAreNotLost = "running executions are not lost",
    NoProcessWithoutItsExecution = "no process without its execution",
    ClaimedOnce = "claimed once",
    ClaimNeedsFreshProbe = "a claim needs a fresh probe",
    DeadlineIsKept = "no execution outlives the deadline",
    RetriesAreBounded = "retries are bounded",
    RowsAreValid = "rows are valid",
}

impl Invariant {
    /// The invariant that a violated rule belongs to. Rules of the lifecycle begin with its name.
    pub(crate) fn of_rule(rule: &str) -> Self {
        let named = Self::ALL.iter().find(|invariant| rule.starts_with(invariant.name()));
        named.copied().unwrap_or(Self::RowsAreValid)
    }

    pub(crate) fn holds(self, small: &SmallModel, world: &World) -> bool {
        if world.violated.has(self) {
            return false;
        }
        match self {
            Self::IntentFirst => every_instance_is_leased(world) && row_keeps(self, small, world),
            Self::OnlyEvidenceFrees => slots(world).all(|slot| {
                row(world, slot).sandbox().is_none_or(|sandbox| {
                    sandbox.lease.may_have_instance() || world.complete_instances(slot).next().is_none()
                })
            }),
            Self::OneInstance => {
                slots(world).all(|slot| world.complete_instances(slot).count() <= 1)
                    && row_keeps(self, small, world)
            }
            Self::FailClosed => slots(world)
                .filter(|slot| matches!(row(world, *slot), Row::Forgotten { .. }))
                .all(|slot| world.complete_instances(slot).next().is_none()),
            Self::ReadyMeansProbed => slots(world).all(|slot| ready_is_probed(small, world, slot)),
            Self::NoProcessWithoutItsExecution => slots(world).all(|slot| every_process_belongs(world, slot)),
            Self::LimitsHoldTogether => {
                present(world) + pooled(world) <= u64::from(small.bounds.limit) + strays(world)
                    && row_keeps(self, small, world)
            }
            Self::SumIsRight => {
                present(world) + u64::from(world.totals.destroyed) == u64::from(world.totals.created)
                    && pooled(world) == u64::from(world.totals.pooled)
            }
            Self::DeadlineIsKept => slots(world).all(|slot| no_process_outlives_the_deadline(world, slot)),
            Self::RowsAreValid
            | Self::StopWins
            | Self::NoWaitWithoutADeadline
            | Self::ClaimedOnce
            | Self::RetriesAreBounded => row_keeps(self, small, world),
            Self::ClaimNeedsFreshProbe
            | Self::OutcomeIsWrittenOnce
            | Self::StopAffectsOnlyItsTarget
            | Self::StopEnds
            | Self::QueuedEnds
            | Self::StaleAnswersChangeNothing
            | Self::AgainIsSafe
            | Self::OneCauseOfDeath
            | Self::AcceptedWorkContinues
            | Self::RunningExecutionsAreNotLost => true,
        }
    }
}

fn slots(world: &World) -> impl Iterator<Item = u8> {
    (0u8..).take(world.rows.len())
}

fn row(world: &World, slot: u8) -> &Row {
    &world.rows[usize::from(slot)]
}

fn row_keeps(invariant: Invariant, small: &SmallModel, world: &World) -> bool {
    world.rows.iter().filter_map(Row::sandbox).all(|sandbox| {
        invariants::violated(sandbox, &small.policy).is_none_or(|rule| Invariant::of_rule(rule) != invariant)
    })
}

/// A complete instance has a lease of its own generation; even a marker had one when it was written.
fn every_instance_is_leased(world: &World) -> bool {
    world.instances.iter().all(|instance| {
        let memory = &world.memory[usize::from(instance.slot)];
        let leased = match row(world, instance.slot) {
            Row::Stored { sandbox, .. } | Row::Unreadable { sandbox, .. } => {
                sandbox.lease.may_have_instance() && sandbox.generation() == instance.generation
            }
            Row::NotCreated | Row::Forgotten { .. } => false,
        };
        let attested = instance.generation <= memory.attested_up_to;
        instance.generation <= memory.leased_up_to && (!instance.whole || leased || attested)
    })
}

fn ready_is_probed(small: &SmallModel, world: &World, slot: u8) -> bool {
    let Some(sandbox) = row(world, slot).sandbox() else {
        return true;
    };
    let shown = status(sandbox, small.time(world.now), &small.policy).state;
    if !matches!(shown, State::Ready | State::Running) {
        return true;
    }
    world.memory[usize::from(slot)].probed.is_some_and(|(generation, at)| {
        let age = u64::from(world.now - at);
        generation == sandbox.generation() && age <= small.policy.evidence_ms
    })
}

fn every_process_belongs(world: &World, slot: u8) -> bool {
    let Some(sandbox) = row(world, slot).sandbox() else {
        return true;
    };
    world.complete_instances(slot).all(|instance| {
        (0u8..).zip(instance.processes).all(|(number, process)| {
            !matches!(process, ProcessState::Running { .. })
                || sandbox
                    .executions
                    .iter()
                    .any(|execution| execution.id == execution_id(number) && execution.may_have_process())
        })
    })
}

/// No process runs in an instance whose own deadline is later than the sandbox's, so the deadline holds even if every
/// node is dead.
fn no_process_outlives_the_deadline(world: &World, slot: u8) -> bool {
    let Some(sandbox) = row(world, slot).sandbox() else {
        return true;
    };
    world.complete_instances(slot).all(|instance| {
        let runs = instance.processes.iter().any(|process| matches!(process, ProcessState::Running { .. }));
        !runs || instance.ends_at <= sandbox.expires_at
    })
}

/// Sandboxes that are not proven gone.
fn present(world: &World) -> u64 {
    rows(world).filter(|sandbox| !sandbox.is_settled() && sandbox.pooled.is_none()).count() as u64
}

/// Pooled instances that are not proven gone.
fn pooled(world: &World) -> u64 {
    rows(world).filter(|sandbox| sandbox.is_in_pool()).count() as u64
}

fn rows(world: &World) -> impl Iterator<Item = &Sandbox> {
    world.rows.iter().filter_map(|row| match row {
        Row::Stored { sandbox, .. } | Row::Unreadable { sandbox, .. } => Some(sandbox.as_ref()),
        Row::NotCreated | Row::Forgotten { .. } => None,
    })
}

/// Strays are leased when they are found, whether or not there is capacity.
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
