//! A checker that cannot fail proves nothing: each guard is taken out in turn, and the promise it keeps must be
//! seen to break. So must promises in a world that does not do what the lifecycle relies on.

use std::fmt;

use pinfold_lifecycle::{Guard, Guards};

use crate::{Findings, Flaw, Promise, Small, first_breach, models};

/// One thing taken out, where that is tried, and what breaks.
#[derive(Debug, Clone)]
pub struct Mutant {
    pub removed: Removed,
    pub promise: Promise,
    pub small: Small,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// A rule of the lifecycle, or one that a provider keeps for it.
    Guard(Guard),
    /// Something that the lifecycle relies on in the world around it.
    Footing(Flaw),
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Guard(guard) => format!("{guard:?}"),
            Self::Footing(flaw) => format!("{flaw:?}"),
        };
        f.pad(&name)
    }
}

impl Mutant {
    fn without(guard: Guard, promise: Promise, mut small: Small) -> Self {
        small.policy.guards = Guards::without(guard);
        Self { removed: Removed::Guard(guard), promise, small }
    }

    fn with(flaw: Flaw, promise: Promise, small: Small) -> Self {
        Self { removed: Removed::Footing(flaw), promise, small: Small { flaw: Some(flaw), ..small } }
    }

    /// Walks until the promise breaks.
    #[must_use]
    pub fn try_out(&self) -> Findings {
        first_breach(self.small.clone(), self.promise)
    }
}

/// Exhaustive, so that a new guard does not build before somebody says how its absence is noticed.
fn without(guard: Guard) -> Mutant {
    let (promise, small) = match guard {
        Guard::OnlyAbsenceFrees => (Promise::OnlyEvidenceFrees, models::stop()),
        Guard::LaunchWaitsForAbsence => (Promise::OneBody, models::replacement()),
        Guard::StopCoversStart => (Promise::OnlyEvidenceFrees, models::replacement()),
        Guard::StopWins => (Promise::StopWins, models::replacement()),
        Guard::CauseWrittenOnce => (Promise::OneCauseOfDeath, models::stop()),
        Guard::OutcomeWrittenOnce => (Promise::OutcomeIsWrittenOnce, models::executions()),
        Guard::StaleAnswersIgnored => (Promise::StaleAnswersChangeNothing, models::handover()),
        Guard::PermitBeforeBody => (Promise::IntentFirst, models::replacement()),
        Guard::ReadyNeedsProbe => (Promise::ReadyMeansProbed, models::replacement()),
        Guard::StaleEvidenceIsUnknown => (Promise::ReadyMeansProbed, models::health()),
        Guard::StopAttemptExpires => (Promise::NoWaitWithoutADeadline, models::stop()),
        Guard::AttemptsAreBounded => (Promise::StopEnds, models::stop()),
        Guard::BackoffIsKept => (Promise::AgainIsSafe, models::stop()),
        Guard::ForgetWaitsForAbsence => (Promise::FailClosed, models::stop()),
        Guard::ReuseNeedsMatch => (Promise::OneBody, models::handover()),
        Guard::LookKnowsItsTime => (Promise::TheLivingAreNotLost, models::executions()),
        Guard::QueuedExpires => (Promise::QueuedEnds, models::executions()),
        Guard::AcceptedWorkHeals => (Promise::AcceptedWorkGoesOn, models::acceptance()),
        Guard::NoExecutionOutlivesItsBody => (Promise::RowsAreSound, models::executions()),
        Guard::StopKeepsToItsGeneration => (Promise::OnlyTheStoppedEnds, models::handover()),
        Guard::UnreadableIsQuarantined => (Promise::OnlyEvidenceFrees, models::unreadable()),
        Guard::GivenOutOnce => (Promise::GivenOutOnce, models::claimers()),
        Guard::GivenOutProven => (Promise::GivenOutProven, models::pool()),
        Guard::ShorterLifeWaits => (Promise::ItsEndIsKept, models::pool()),
        Guard::OnlyTheWaitingAreGivenUp => (Promise::OnlyTheStoppedEnds, models::claimers()),
        Guard::NextTryWaitsForAbsence => (Promise::OnlyEvidenceFrees, models::recovery()),
        Guard::StopEndsTheTries => (Promise::StopWins, models::recovery()),
        Guard::ReportedIsFinal => (Promise::OutcomeIsWrittenOnce, models::recovery()),
        Guard::TriesAreBounded => (Promise::TriesAreBounded, models::recovery()),
        Guard::EndsAreOfTheirTry => (Promise::NoProcessWithoutItsExecution, models::recovery()),
    };
    Mutant::without(guard, promise, small)
}

#[must_use]
pub fn all() -> Vec<Mutant> {
    let of_the_world = [
        (Flaw::ActBeforeCommit, Promise::IntentFirst),
        (Flaw::CommitWithoutCompare, Promise::StopWins),
        (Flaw::CountBeforeCommit, Promise::SumIsRight),
        (Flaw::AdmitBeforeTransaction, Promise::LimitsHoldTogether),
    ];
    let guards = Guard::ALL.into_iter().map(without);
    // The same hole twice: a stop that never ends must be seen as time goes by, not only in the row.
    let livelock = Mutant::without(Guard::StopAttemptExpires, Promise::StopEnds, models::stop());
    // Two claims that both land give one body to two users.
    let shared = Mutant::with(Flaw::CommitWithoutCompare, Promise::GivenOutOnce, models::claimers());
    guards
        .chain([livelock, shared])
        .chain(
            of_the_world
                .into_iter()
                .map(|(flaw, promise)| Mutant::with(flaw, promise, models::two_sandboxes())),
        )
        .collect()
}
