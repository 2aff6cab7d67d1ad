//! Turns history records into counters. Each record is counted once. Durations are measured from an earlier record of
//! the same sandbox, and are not counted if that record is no longer available.

use pinfold_lifecycle::{
    Cause, ExecutionId, Fact, Outcome, OutcomeKind, Record, ResourceUsage, StopFailure, Timestamp,
};

use crate::catalogue::{
    ATTEMPTS_FAILED, CLEANUP_ITEMS, CPU, CREATED, ENDED, EXECUTIONS, FAILURES, INACTIVITY, ORPHANS,
    QUARANTINES, STARTS_FAILED, STOP_ATTEMPTS, TIMEOUT_CLEANUPS, TIMEOUTS,
};
use crate::cleanup::{ORPHANED_ENDED, ORPHANED_FOUND};
use crate::rates::{CPU_COUNTED, GONE, MEMORY_COUNTED, MEMORY_PEAKS, QUARANTINED, memory_peak};
use crate::{AgentLabel, Counters, Latency, word};

/// One history record, with the context needed to count it.
#[derive(Debug, Clone)]
pub struct HistoryEntry<'a> {
    pub record: &'a Record,
    /// Earlier records of the same sandbox, oldest first, as far back as they were loaded.
    pub earlier: &'a [Record],
    pub agent_type: &'a AgentLabel,
    /// Resources that the sandbox used, if it has ended and they were measured.
    pub used: Option<ResourceUsage>,
}

/// Counts one record. Records of instances in the pool are not counted.
pub fn count_entry(counters: &mut Counters, entry: &HistoryEntry<'_>) {
    match &entry.record.fact {
        Fact::Created => entry.created(counters),
        Fact::BecameReady { .. } => entry.became_ready(counters),
        Fact::AttemptFailed { cause, .. } => counters.count(ATTEMPTS_FAILED, &[&word(cause)]),
        Fact::ExecutionStarted { execution } => entry.execution_started(counters, *execution),
        Fact::ExecutionEnded { execution, outcome } => entry.execution_ended(counters, *execution, outcome),
        Fact::StopFailed { failure, .. } => counters.count(STOP_ATTEMPTS, &[failed_stop(failure)]),
        Fact::LeaseFreed { .. } => entry.freed(counters),
        Fact::Quarantined { .. } => entry.quarantined(counters),
        Fact::StrayFound { .. } => {
            counters.count(ORPHANS, &[]);
            counters.count(CLEANUP_ITEMS, &[ORPHANED_FOUND]);
        }
        Fact::Ended { cause } => entry.ended(counters, *cause),
        Fact::Pooled
        | Fact::DeadlineUpdated { .. }
        | Fact::LaunchBegan { .. }
        | Fact::Launched { .. }
        | Fact::StartFailed { .. }
        | Fact::RetryScheduled { .. }
        | Fact::WorkAccepted { .. }
        | Fact::RestartRequested { .. }
        | Fact::EndDecided { .. }
        | Fact::StopBegan { .. }
        | Fact::ObservedInQuarantine { .. }
        | Fact::Attested { .. }
        | Fact::BecameUnhealthy { .. }
        | Fact::BecameHealthy
        | Fact::InDoubt { .. }
        | Fact::UnexpectedInstances { .. }
        | Fact::Reconciled { .. }
        | Fact::Adopted { .. }
        | Fact::KeptAlive { .. }
        | Fact::ForgetRequested
        | Fact::ExecutionQueued { .. }
        | Fact::FilesPut { .. }
        | Fact::ExecutionEnding { .. }
        | Fact::ExecutionCollecting { .. }
        | Fact::LateAnswer { .. } => {}
    }
}

/// Whether the platform failed the execution: it was not started, or it was lost with its instance. A command that exits
/// with an error, exceeds a limit, takes too long or is cancelled is no failure of the platform.
#[must_use]
pub fn is_platform_failure(cause: Cause) -> bool {
    cause.is_retryable()
}

/// Whether the execution timed out: by its time limit, by inactivity, or with its sandbox.
#[must_use]
pub fn has_timed_out(kind: OutcomeKind) -> bool {
    match kind {
        OutcomeKind::TimedOut => true,
        OutcomeKind::Exited | OutcomeKind::Failed | OutcomeKind::Cancelled | OutcomeKind::Lost => false,
    }
}

/// Whether a sandbox that ended with this cause was never ready and had no execution. If it had one, the end of the
/// execution counts as the failure.
#[must_use]
pub fn is_failed_start<'a>(cause: Cause, earlier: impl IntoIterator<Item = &'a Fact> + Clone) -> bool {
    let was_used = |fact: &Fact| matches!(fact, Fact::BecameReady { .. } | Fact::ExecutionQueued { .. });
    may_be_failed_start(cause) && !is_unclaimed(earlier.clone()) && !earlier.into_iter().any(was_used)
}

/// Whether earlier records must be loaded to decide about a failed start.
#[must_use]
pub fn may_be_failed_start(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::StartFailed
            | Cause::StartDeadline
            | Cause::ProbeFailed
            | Cause::ProviderError
            | Cause::Lost
            | Cause::KeeperKilled
    )
}

/// Whether it was created for the pool and never claimed.
fn is_unclaimed<'a>(facts: impl IntoIterator<Item = &'a Fact>) -> bool {
    let (mut pooled, mut created) = (false, false);
    for fact in facts {
        pooled |= matches!(fact, Fact::Pooled);
        created |= matches!(fact, Fact::Created);
    }
    pooled && !created
}

/// Whether this cause is a timeout.
fn is_timeout(cause: Cause) -> bool {
    has_timed_out(Outcome::ended_for(cause).kind)
}

fn failed_stop(failure: &StopFailure) -> &'static str {
    match failure {
        StopFailure::StillPresent { .. } => "still_present",
        StopFailure::ObservationFailed { .. } | StopFailure::UnreadableRow { .. } => "unknown",
        StopFailure::DeadlinePassed => "deadline_passed",
    }
}

impl HistoryEntry<'_> {
    fn created(&self, counters: &mut Counters) {
        counters.count(CREATED, &[]);
        // An instance from the pool is ready at once.
        if self.has(|fact| matches!(fact, Fact::BecameReady { .. })) {
            counters.record(Latency::Create, &[], 0);
        }
    }

    /// Only the first time: after a restart the duration would not start at the create request.
    fn became_ready(&self, counters: &mut Counters) {
        let created = self.last(|fact| matches!(fact, Fact::Created));
        let was_ready = self.has(|fact| matches!(fact, Fact::BecameReady { .. }));
        if let Some((_, at)) = created
            && !was_ready
        {
            counters.record(Latency::Create, &[], self.record.at.ms_since(at));
        }
    }

    fn execution_started(&self, counters: &mut Counters, execution: ExecutionId) {
        let was_started =
            |fact: &Fact| matches!(fact, Fact::ExecutionStarted { execution: it } if *it == execution);
        let was_queued =
            |fact: &Fact| matches!(fact, Fact::ExecutionQueued { execution: it } if *it == execution);
        if let Some(ms) = self.ms_since_last(was_queued)
            && !self.has(was_started)
        {
            counters.record(Latency::ExecStart, &[], ms);
        }
    }

    fn execution_ended(&self, counters: &mut Counters, execution: ExecutionId, outcome: &Outcome) {
        let agent_type = self.agent_type.as_str();
        counters.count(EXECUTIONS, &[agent_type, &word(&outcome.cause)]);
        if is_platform_failure(outcome.cause) {
            counters.count(FAILURES, &[agent_type]);
        }
        if has_timed_out(outcome.kind) {
            counters.count(TIMEOUTS, &[agent_type]);
            // If the sandbox itself times out, its end counts for both.
            if !self.sandbox_timed_out() && !self.was_quarantined() {
                counters.count(TIMEOUT_CLEANUPS, &[GONE]);
            }
        }
        if outcome.cause == Cause::Inactivity {
            counters.count(INACTIVITY, &[agent_type]);
        }
        let its_start =
            |fact: &Fact| matches!(fact, Fact::ExecutionStarted { execution: it } if *it == execution);
        if let Some(ms) = self.ms_since_last(its_start) {
            counters.record(Latency::Execution, &[agent_type], ms);
        }
        let its_cancel = |fact: &Fact| matches!(fact, Fact::ExecutionEnding { execution: it, cause } if *it == execution && *cause == Cause::Cancelled);
        if let Some(ms) = self.ms_since_last(its_cancel) {
            counters.record(Latency::Cancel, &[], ms);
        }
    }

    fn ended(&self, counters: &mut Counters, cause: Cause) {
        let is_created = |fact: &Fact| matches!(fact, Fact::Created);
        let earlier = self.earlier.iter().map(|record| &record.fact);
        if is_unclaimed(earlier.clone()) {
            return;
        }
        counters.count(ENDED, &[&word(&cause)]);
        if is_timeout(cause) && !self.was_quarantined() {
            counters.count(TIMEOUT_CLEANUPS, &[GONE]);
        }
        if let Some(ms) = self.ms_since_last(is_created) {
            counters.record(Latency::Lifetime, &[], ms);
        }
        if let Some(ms) = self.stop_ms() {
            counters.record(Latency::Stop, &[], ms);
        }
        if is_failed_start(cause, earlier) {
            counters.count(STARTS_FAILED, &[]);
        }
        self.used(counters);
    }

    fn used(&self, counters: &mut Counters) {
        let Some(used) = self.used else { return };
        let agent_type = [self.agent_type.as_str()];
        if let Some(cpu_ms) = used.cpu_ms {
            counters.add(CPU, &agent_type, cpu_ms);
            counters.count(CPU_COUNTED, &agent_type);
        }
        if let Some(bytes) = used.memory_peak_bytes {
            counters.add(MEMORY_PEAKS, &agent_type, bytes);
            counters.count(MEMORY_COUNTED, &agent_type);
            counters.add(&memory_peak(), &[], bytes);
        }
    }

    fn freed(&self, counters: &mut Counters) {
        if self.is_stopping() {
            counters.count(STOP_ATTEMPTS, &[GONE]);
        }
        if self.proves_stray_gone() {
            counters.count(CLEANUP_ITEMS, &[ORPHANED_ENDED]);
        }
    }

    /// Only the first result counts: a quarantined instance that is proven gone later was not cleaned up in time.
    fn quarantined(&self, counters: &mut Counters) {
        counters.count(QUARANTINES, &[]);
        let is_claimed = !is_unclaimed(self.earlier.iter().map(|record| &record.fact));
        let timed_out = self.sandbox_timed_out() || self.execution_timed_out();
        if is_claimed && timed_out && !self.was_quarantined() {
            counters.count(TIMEOUT_CLEANUPS, &[QUARANTINED]);
        }
    }

    fn was_quarantined(&self) -> bool {
        self.has(|fact| matches!(fact, Fact::Quarantined { .. }))
    }

    fn sandbox_timed_out(&self) -> bool {
        self.has(|fact| matches!(fact, Fact::EndDecided { cause } if is_timeout(*cause)))
    }

    /// Whether an execution timed out and its end is not yet recorded.
    fn execution_timed_out(&self) -> bool {
        let has_ended = |id: ExecutionId| {
            self.has(|fact| matches!(fact, Fact::ExecutionEnded { execution, .. } if *execution == id))
        };
        self.has(|fact| match fact {
            Fact::ExecutionEnding { execution, cause } => is_timeout(*cause) && !has_ended(*execution),
            _ => false,
        })
    }

    /// Whether this record proves that a stray instance is gone. An attestation is not a proof.
    fn proves_stray_gone(&self) -> bool {
        let of_strays = |fact: &Fact| {
            matches!(fact, Fact::StrayFound { .. } | Fact::LeaseFreed { .. } | Fact::Attested { .. })
        };
        let last = self.last(of_strays);
        last.is_some_and(|(place, _)| matches!(self.earlier[place].fact, Fact::StrayFound { .. }))
    }

    /// From the decision to the proof. `None`: there was nothing to stop, or it was attested.
    fn stop_ms(&self) -> Option<u64> {
        let (decided, at) = self.last(|fact| matches!(fact, Fact::EndDecided { .. }))?;
        let since = &self.earlier[decided..];
        let stopped = since.iter().any(|record| matches!(record.fact, Fact::StopBegan { .. }));
        let attested = since.iter().any(|record| matches!(record.fact, Fact::Attested { .. }));
        (stopped && !attested).then(|| self.record.at.ms_since(at))
    }

    /// Whether a stop attempt is under way.
    fn is_stopping(&self) -> bool {
        let of_stops = |fact: &Fact| {
            matches!(
                fact,
                Fact::StopBegan { .. }
                    | Fact::StopFailed { .. }
                    | Fact::Quarantined { .. }
                    | Fact::Attested { .. }
                    | Fact::LeaseFreed { .. }
                    | Fact::LaunchBegan { .. }
            )
        };
        let last = self.last(of_stops);
        last.is_some_and(|(place, _)| matches!(self.earlier[place].fact, Fact::StopBegan { .. }))
    }

    fn has(&self, is_it: impl Fn(&Fact) -> bool) -> bool {
        self.earlier.iter().any(|record| is_it(&record.fact))
    }

    fn last(&self, is_it: impl Fn(&Fact) -> bool) -> Option<(usize, Timestamp)> {
        let place = self.earlier.iter().rposition(|record| is_it(&record.fact))?;
        Some((place, self.earlier[place].at))
    }

    fn ms_since_last(&self, is_it: impl Fn(&Fact) -> bool) -> Option<u64> {
        self.last(is_it).map(|(_, at)| self.record.at.ms_since(at))
    }
}

#[cfg(test)]
mod tests;
