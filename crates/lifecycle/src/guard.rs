//! The guards of the lifecycle, by name. Each can be taken out by a test, to show that the model checker and
//! the simulator notice. A program built without the feature `mutation` cannot take any out.

/// One rule that keeps one promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Guard {
    /// Only evidence of absence frees a lease: a look that failed does not.
    OnlyAbsenceFrees,
    /// A new body waits until the old one is proven gone.
    LaunchWaitsForAbsence,
    /// A stop that comes while the body is being made still stops it.
    StopCoversStart,
    /// Once an end is decided, no event leads back to work.
    StopWins,
    /// The first cause of an end is its cause for good.
    CauseWrittenOnce,
    /// An execution's outcome is decided once.
    OutcomeWrittenOnce,
    /// An answer to a question that is no longer asked changes nothing.
    StaleAnswersIgnored,
    /// A body is made only while its launch is still wanted, seen after its mark was made.
    PermitBeforeBody,
    /// A sandbox is live only after a full probe passed in this generation.
    ReadyNeedsProbe,
    /// Evidence of readiness grows old.
    StaleEvidenceIsUnknown,
    /// A stop attempt without an answer ends at its deadline.
    StopAttemptExpires,
    /// Failed stops end in quarantine.
    AttemptsAreBounded,
    /// Asking again for a stop does not start its backoff anew.
    BackoffIsKept,
    /// A record is forgotten only after proof of absence.
    ForgetWaitsForAbsence,
    /// A body found is used again only if it is the one that was leased.
    ReuseNeedsMatch,
    /// A look that began before an execution ran says nothing about it.
    LookKnowsItsTime,
    /// A queued execution starts or ends by its deadline.
    QueuedExpires,
    /// Work that was accepted is not ended by the deadline for accepting work.
    AcceptedWorkHeals,
    /// Every execution of a body that is gone ends.
    NoExecutionOutlivesItsBody,
    /// A stop concerns its own generation and earlier ones, never a later one.
    StopKeepsToItsGeneration,
    /// A row that cannot be read is quarantined.
    UnreadableIsQuarantined,
    /// Only a body that waits in the pool is given out, and then it waits no more.
    GivenOutOnce,
    /// A body is given out only while its probe is fresh.
    GivenOutProven,
    /// Where a body from the pool must end sooner than it was told, nothing runs in it before it knows.
    ShorterLifeWaits,
    /// Only a body that waits in the pool is given up to make room.
    OnlyTheWaitingAreGivenUp,
    /// The next try waits until the body of the last one is proven gone.
    NextTryWaitsForAbsence,
    /// A stop also ends what waits for its next try.
    StopEndsTheTries,
    /// What has reported its outcome is not tried again.
    ReportedIsFinal,
    /// There are so many tries and no more.
    TriesAreBounded,
    /// An end that an earlier try came to says nothing about this one.
    EndsAreOfTheirTry,
}

impl Guard {
    pub const ALL: [Guard; 30] = [
        Guard::OnlyAbsenceFrees,
        Guard::LaunchWaitsForAbsence,
        Guard::StopCoversStart,
        Guard::StopWins,
        Guard::CauseWrittenOnce,
        Guard::OutcomeWrittenOnce,
        Guard::StaleAnswersIgnored,
        Guard::PermitBeforeBody,
        Guard::ReadyNeedsProbe,
        Guard::StaleEvidenceIsUnknown,
        Guard::StopAttemptExpires,
        Guard::AttemptsAreBounded,
        Guard::BackoffIsKept,
        Guard::ForgetWaitsForAbsence,
        Guard::ReuseNeedsMatch,
        Guard::LookKnowsItsTime,
        Guard::QueuedExpires,
        Guard::AcceptedWorkHeals,
        Guard::NoExecutionOutlivesItsBody,
        Guard::StopKeepsToItsGeneration,
        Guard::UnreadableIsQuarantined,
        Guard::GivenOutOnce,
        Guard::GivenOutProven,
        Guard::ShorterLifeWaits,
        Guard::OnlyTheWaitingAreGivenUp,
        Guard::NextTryWaitsForAbsence,
        Guard::StopEndsTheTries,
        Guard::ReportedIsFinal,
        Guard::TriesAreBounded,
        Guard::EndsAreOfTheirTry,
    ];
}

/// Which guards hold. All of them, unless a test says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Guards {
    #[cfg(feature = "mutation")]
    removed: Option<Guard>,
}

impl Guards {
    #[cfg(feature = "mutation")]
    #[must_use]
    pub fn without(guard: Guard) -> Self {
        Self { removed: Some(guard) }
    }

    #[cfg(feature = "mutation")]
    #[must_use]
    pub fn hold(self, guard: Guard) -> bool {
        self.removed != Some(guard)
    }

    #[cfg(not(feature = "mutation"))]
    #[must_use]
    pub const fn hold(self, _guard: Guard) -> bool {
        true
    }
}
