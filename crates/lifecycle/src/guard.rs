//! Named guards of the lifecycle. With the feature `mutation` a test can remove one guard, to show that the model
//! checker and the simulator notice its absence. Without the feature all guards always hold.

/// One rule that keeps one invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Guard {
    /// Only evidence of absence frees a lease; a failed observation does not.
    OnlyAbsenceFrees,
    /// A new instance is launched only after the old one is proven gone.
    LaunchWaitsForAbsence,
    /// A stop during a launch still stops the instance.
    StopCoversStart,
    /// Once an end is decided, no event leads back to work.
    StopWins,
    /// The first cause of an end is never overwritten.
    CauseWrittenOnce,
    /// An execution's outcome is decided once.
    OutcomeWrittenOnce,
    /// A result whose effect is no longer pending changes nothing.
    StaleAnswersIgnored,
    /// An instance is created only if its launch is still permitted, checked after its marker was written.
    PermitBeforeInstance,
    /// A sandbox is live only after a full probe passed in this generation.
    ReadyNeedsProbe,
    /// Old evidence of readiness turns the status to unknown.
    StaleEvidenceIsUnknown,
    /// A stop attempt without a result ends at its deadline.
    StopAttemptExpires,
    /// After the configured number of failed stops the instance is quarantined.
    AttemptsAreBounded,
    /// Repeating a stop request does not reset its backoff.
    BackoffIsKept,
    /// A row is deleted only after proof of absence.
    ForgetWaitsForAbsence,
    /// An instance that is found is reused only if it is the leased one.
    ReuseNeedsMatch,
    /// An observation that began before an execution ran says nothing about that execution.
    EarlierObservationIgnored,
    /// A queued execution starts or ends by its deadline.
    QueuedExpires,
    /// A sandbox that accepted work is not ended by the deadline for accepting work.
    AcceptedWorkClearsDeadline,
    /// Every execution ends when its instance is gone.
    NoExecutionOutlivesItsInstance,
    /// A stop affects its own generation and earlier ones, never a later one.
    StopSparesLaterGenerations,
    /// A row that cannot be read is quarantined.
    UnreadableIsQuarantined,
    /// Only a pooled instance can be claimed, and only once.
    ClaimedOnce,
    /// An instance is claimed only while its last passed probe is fresh.
    ClaimNeedsFreshProbe,
    /// If a claim shortens the instance's lifetime, no execution starts before the instance knows its new deadline.
    ShorterLifetimeBlocksExecutions,
    /// Only pooled instances are discarded to free capacity.
    OnlyPooledAreDiscarded,
    /// A retry waits until the previous instance is proven gone.
    RetryWaitsForAbsence,
    /// A stop also ends a sandbox that is waiting for its next launch.
    StopEndsRetries,
    /// An execution that has reported its outcome is not retried.
    ReportedOutcomeIsFinal,
    /// The number of attempts is limited.
    RetriesAreBounded,
    /// An end reported by an earlier attempt does not end the current one.
    EndsBelongToTheirAttempt,
    /// An outcome decided before the artifacts are collected is not changed by what happens meanwhile.
    CollectingKeepsOutcome,
    /// Collecting artifacts ends by its deadline.
    CollectingExpires,
}

impl Guard {
    pub const ALL: [Guard; 32] = [
        Guard::OnlyAbsenceFrees,
        Guard::LaunchWaitsForAbsence,
        Guard::StopCoversStart,
        Guard::StopWins,
        Guard::CauseWrittenOnce,
        Guard::OutcomeWrittenOnce,
        Guard::StaleAnswersIgnored,
        Guard::PermitBeforeInstance,
        Guard::ReadyNeedsProbe,
        Guard::StaleEvidenceIsUnknown,
        Guard::StopAttemptExpires,
        Guard::AttemptsAreBounded,
        Guard::BackoffIsKept,
        Guard::ForgetWaitsForAbsence,
        Guard::ReuseNeedsMatch,
        Guard::EarlierObservationIgnored,
        Guard::QueuedExpires,
        Guard::AcceptedWorkClearsDeadline,
        Guard::NoExecutionOutlivesItsInstance,
        Guard::StopSparesLaterGenerations,
        Guard::UnreadableIsQuarantined,
        Guard::ClaimedOnce,
        Guard::ClaimNeedsFreshProbe,
        Guard::ShorterLifetimeBlocksExecutions,
        Guard::OnlyPooledAreDiscarded,
        Guard::RetryWaitsForAbsence,
        Guard::StopEndsRetries,
        Guard::ReportedOutcomeIsFinal,
        Guard::RetriesAreBounded,
        Guard::EndsBelongToTheirAttempt,
        Guard::CollectingKeepsOutcome,
        Guard::CollectingExpires,
    ];
}

/// The guards in force: all of them, unless a test removes one.
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
