//! Mutation tests of the model checker. Each guard is removed in turn, and the invariant it protects must be violated.
//! The same holds for faults of the environment.

use std::fmt;

use pinfold_lifecycle::{Guard, Guards};

use crate::{Findings, Flaw, Invariant, SmallModel, find_violation, models};

/// One removed guard or added fault, the model to check, and the invariant that must be violated.
#[derive(Debug, Clone)]
pub struct Mutant {
    pub removed: Removed,
    pub invariant: Invariant,
    pub small: SmallModel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// A guard of the lifecycle, or one that a provider applies for it.
    Guard(Guard),
    /// A fault of the environment.
    Environment(Flaw),
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Guard(guard) => format!("{guard:?}"),
            Self::Environment(flaw) => format!("{flaw:?}"),
        };
        f.pad(&name)
    }
}

impl Mutant {
    fn without(guard: Guard, invariant: Invariant, mut small: SmallModel) -> Self {
        small.policy.guards = Guards::without(guard);
        Self { removed: Removed::Guard(guard), invariant, small }
    }

    fn with(flaw: Flaw, invariant: Invariant, small: SmallModel) -> Self {
        Self {
            removed: Removed::Environment(flaw),
            invariant,
            small: SmallModel { flaw: Some(flaw), ..small },
        }
    }

    /// Explores the model until the invariant is violated.
    #[must_use]
    pub fn run(&self) -> Findings {
        find_violation(self.small.clone(), self.invariant)
    }
}

/// Exhaustive: a new guard does not compile before its mutant is defined.
fn without(guard: Guard) -> Mutant {
    let (invariant, small) = match guard {
        Guard::OnlyAbsenceFrees => (Invariant::OnlyEvidenceFrees, models::stop()),
        Guard::LaunchWaitsForAbsence => (Invariant::OneInstance, models::replacement()),
        Guard::StopCoversStart => (Invariant::OnlyEvidenceFrees, models::replacement()),
        Guard::StopWins => (Invariant::StopWins, models::replacement()),
        Guard::CauseWrittenOnce => (Invariant::OneCauseOfDeath, models::stop()),
        Guard::OutcomeWrittenOnce => (Invariant::OutcomeIsWrittenOnce, models::executions()),
        Guard::StaleAnswersIgnored => (Invariant::StaleAnswersChangeNothing, models::handover()),
        Guard::PermitBeforeInstance => (Invariant::IntentFirst, models::replacement()),
        Guard::ReadyNeedsProbe => (Invariant::ReadyMeansProbed, models::replacement()),
        Guard::StaleEvidenceIsUnknown => (Invariant::ReadyMeansProbed, models::health()),
        Guard::StopAttemptExpires => (Invariant::NoWaitWithoutADeadline, models::stop()),
        Guard::AttemptsAreBounded => (Invariant::StopEnds, models::stop()),
        Guard::BackoffIsKept => (Invariant::AgainIsSafe, models::stop()),
        Guard::ForgetWaitsForAbsence => (Invariant::FailClosed, models::stop()),
        Guard::ReuseNeedsMatch => (Invariant::OneInstance, models::handover()),
        Guard::EarlierObservationIgnored => (Invariant::RunningExecutionsAreNotLost, models::executions()),
        Guard::QueuedExpires => (Invariant::QueuedEnds, models::executions()),
        Guard::AcceptedWorkClearsDeadline => (Invariant::AcceptedWorkContinues, models::acceptance()),
        Guard::NoExecutionOutlivesItsInstance => (Invariant::RowsAreValid, models::executions()),
        Guard::StopSparesLaterGenerations => (Invariant::StopAffectsOnlyItsTarget, models::handover()),
        Guard::UnreadableIsQuarantined => (Invariant::OnlyEvidenceFrees, models::unreadable()),
        Guard::ClaimedOnce => (Invariant::ClaimedOnce, models::claimers()),
        Guard::ClaimNeedsFreshProbe => (Invariant::ClaimNeedsFreshProbe, models::pool()),
        Guard::ShorterLifetimeBlocksExecutions => (Invariant::DeadlineIsKept, models::pool()),
        Guard::OnlyPooledAreDiscarded => (Invariant::StopAffectsOnlyItsTarget, models::claimers()),
        Guard::RetryWaitsForAbsence => (Invariant::OnlyEvidenceFrees, models::recovery()),
        Guard::StopEndsRetries => (Invariant::StopWins, models::recovery()),
        Guard::ReportedOutcomeIsFinal => (Invariant::OutcomeIsWrittenOnce, models::recovery()),
        Guard::RetriesAreBounded => (Invariant::RetriesAreBounded, models::recovery()),
        Guard::EndsBelongToTheirAttempt => (Invariant::NoProcessWithoutItsExecution, models::recovery()),
        Guard::CollectingKeepsOutcome => (Invariant::OutcomeIsWrittenOnce, models::artifacts()),
        Guard::CollectingExpires => (Invariant::NoWaitWithoutADeadline, models::artifacts()),
    };
    Mutant::without(guard, invariant, small)
}

#[must_use]
pub fn all() -> Vec<Mutant> {
    let of_the_world = [
        (Flaw::ActBeforeCommit, Invariant::IntentFirst),
        (Flaw::CommitWithoutCompare, Invariant::StopWins),
        (Flaw::CountBeforeCommit, Invariant::SumIsRight),
        (Flaw::AdmitBeforeTransaction, Invariant::LimitsHoldTogether),
    ];
    let guards = Guard::ALL.into_iter().map(without);
    // A second mutant for this guard: a stop that never ends must be noticed as time passes, not only by the row's
    // deadline.
    let livelock = Mutant::without(Guard::StopAttemptExpires, Invariant::StopEnds, models::stop());
    // Two committed claims give one instance to two users.
    let shared = Mutant::with(Flaw::CommitWithoutCompare, Invariant::ClaimedOnce, models::claimers());
    guards
        .chain([livelock, shared])
        .chain(
            of_the_world
                .into_iter()
                .map(|(flaw, invariant)| Mutant::with(flaw, invariant, models::two_sandboxes())),
        )
        .collect()
}
