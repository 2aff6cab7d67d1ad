//! From facts of the history to sums. Each fact is counted once, when it is come to; how long something took is told by
//! an earlier fact of the same sandbox, and is not counted where that is not known any more.

use pinfold_lifecycle::{
    Cause, ExecutionId, Fact, Outcome, OutcomeKind, Record, StopFailure, Timestamp, Used,
};

use crate::catalogue::{
    CLEANUP_ITEMS, CPU, CREATED, ENDED, EXECUTIONS, FAILURES, INACTIVITY, ORPHANS, QUARANTINES,
    STARTS_FAILED, STOP_ATTEMPTS, TIMEOUT_CLEANUPS, TIMEOUTS, TRIES_FAILED,
};
use crate::cleaned::{ORPHANED_ENDED, ORPHANED_FOUND};
use crate::rates::{CPU_COUNTED, GONE, MEMORY_COUNTED, MEMORY_PEAKS, QUARANTINED, memory_peak};
use crate::{AgentLabel, Latency, Sums, word};

/// One fact, and what is needed to understand it.
#[derive(Debug, Clone)]
pub struct Told<'a> {
    pub record: &'a Record,
    /// What was recorded of the same sandbox before it, the oldest first, as far back as was looked.
    pub earlier: &'a [Record],
    pub agent_type: &'a AgentLabel,
    /// What the sandbox used, where it has ended and that was counted.
    pub used: Option<Used>,
}

/// Counts one fact. A body that waits in the pool is nobody's sandbox, and its facts are not counted.
pub fn fold(sums: &mut Sums, told: &Told<'_>) {
    match &told.record.fact {
        Fact::Created => told.created(sums),
        Fact::BecameReady { .. } => told.became_ready(sums),
        Fact::TryFailed { cause, .. } => sums.count(TRIES_FAILED, &[&word(cause)]),
        Fact::ExecutionStarted { execution } => told.execution_started(sums, *execution),
        Fact::ExecutionEnded { execution, outcome } => told.execution_ended(sums, *execution, outcome),
        Fact::StopFailed { failure, .. } => sums.count(STOP_ATTEMPTS, &[failed_stop(failure)]),
        Fact::LeaseFreed { .. } => told.freed(sums),
        Fact::Quarantined { .. } => told.quarantined(sums),
        Fact::StrayFound { .. } => {
            sums.count(ORPHANS, &[]);
            sums.count(CLEANUP_ITEMS, &[ORPHANED_FOUND]);
        }
        Fact::Ended { cause } => told.ended(sums, *cause),
        Fact::Pooled
        | Fact::EndMoved { .. }
        | Fact::LaunchBegan { .. }
        | Fact::Launched { .. }
        | Fact::StartFailed { .. }
        | Fact::NextTryWaits { .. }
        | Fact::WorkAccepted { .. }
        | Fact::RestartAsked { .. }
        | Fact::EndDecided { .. }
        | Fact::StopBegan { .. }
        | Fact::LookedInQuarantine { .. }
        | Fact::Attested { .. }
        | Fact::BecameUnhealthy { .. }
        | Fact::BecameHealthy
        | Fact::InDoubt { .. }
        | Fact::UnexpectedBodies { .. }
        | Fact::Reconciled { .. }
        | Fact::Adopted { .. }
        | Fact::KeptAlive { .. }
        | Fact::ForgetAsked
        | Fact::ExecutionQueued { .. }
        | Fact::ExecutionEnding { .. }
        | Fact::LateAnswer { .. } => {}
    }
}

/// Nobody's wish and nobody's success. A cancel is somebody's wish.
#[must_use]
pub fn has_failed(kind: OutcomeKind, cause: Cause) -> bool {
    match kind {
        OutcomeKind::Exited => cause != Cause::Completed,
        OutcomeKind::Failed | OutcomeKind::TimedOut | OutcomeKind::Lost => true,
        OutcomeKind::Cancelled => false,
    }
}

/// Whatever its time ran out by: its own limit, its silence, or the life of its sandbox.
#[must_use]
pub fn has_timed_out(kind: OutcomeKind) -> bool {
    match kind {
        OutcomeKind::TimedOut => true,
        OutcomeKind::Exited | OutcomeKind::Failed | OutcomeKind::Cancelled | OutcomeKind::Lost => false,
    }
}

/// Whether a sandbox that ended with this cause, after these facts, was never of use to whoever asked for it. Where it
/// had work, the end of that tells of it.
#[must_use]
pub fn is_failed_start<'a>(cause: Cause, earlier: impl IntoIterator<Item = &'a Fact> + Clone) -> bool {
    let had_a_use = |fact: &Fact| matches!(fact, Fact::BecameReady { .. } | Fact::ExecutionQueued { .. });
    may_be_failed_start(cause) && !is_nobodys(earlier.clone()) && !earlier.into_iter().any(had_a_use)
}

/// Whether the facts before an end with this cause are worth a look.
#[must_use]
pub fn may_be_failed_start(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::StartFailed | Cause::StartDeadline | Cause::ProbeFailed | Cause::ProviderError | Cause::Lost
    )
}

/// Whether it was made for the pool, and given to nobody.
fn is_nobodys<'a>(facts: impl IntoIterator<Item = &'a Fact>) -> bool {
    let (mut pooled, mut created) = (false, false);
    for fact in facts {
        pooled |= matches!(fact, Fact::Pooled);
        created |= matches!(fact, Fact::Created);
    }
    pooled && !created
}

/// Whether a sandbox that ends for this cause ends because its time ran out.
fn is_timeout(cause: Cause) -> bool {
    has_timed_out(Outcome::ended_for(cause).kind)
}

fn failed_stop(failure: &StopFailure) -> &'static str {
    match failure {
        StopFailure::StillPresent { .. } => "still_present",
        StopFailure::LookFailed { .. } | StopFailure::UnreadableRow { .. } => "unknown",
        StopFailure::DeadlinePassed => "deadline_passed",
    }
}

impl Told<'_> {
    fn created(&self, sums: &mut Sums) {
        sums.count(CREATED, &[]);
        // From the pool it comes ready.
        if self.has(|fact| matches!(fact, Fact::BecameReady { .. })) {
            sums.took(Latency::Create, &[], 0);
        }
    }

    /// The first time only: what is restarted was not asked for just now.
    fn became_ready(&self, sums: &mut Sums) {
        let created = self.last(|fact| matches!(fact, Fact::Created));
        let was_ready = self.has(|fact| matches!(fact, Fact::BecameReady { .. }));
        if let Some((_, at)) = created
            && !was_ready
        {
            sums.took(Latency::Create, &[], self.record.at.ms_since(at));
        }
    }

    fn execution_started(&self, sums: &mut Sums, execution: ExecutionId) {
        let was_started =
            |fact: &Fact| matches!(fact, Fact::ExecutionStarted { execution: it } if *it == execution);
        let was_asked =
            |fact: &Fact| matches!(fact, Fact::ExecutionQueued { execution: it } if *it == execution);
        if let Some(ms) = self.ms_since_last(was_asked)
            && !self.has(was_started)
        {
            sums.took(Latency::ExecStart, &[], ms);
        }
    }

    fn execution_ended(&self, sums: &mut Sums, execution: ExecutionId, outcome: &Outcome) {
        let agent_type = self.agent_type.as_str();
        sums.count(EXECUTIONS, &[agent_type, &word(&outcome.cause)]);
        if has_failed(outcome.kind, outcome.cause) {
            sums.count(FAILURES, &[agent_type]);
        }
        if has_timed_out(outcome.kind) {
            sums.count(TIMEOUTS, &[agent_type]);
            // Where its sandbox ends for its time, the end of that tells of both.
            if !self.ends_for_its_time() && !self.was_quarantined() {
                sums.count(TIMEOUT_CLEANUPS, &[GONE]);
            }
        }
        if outcome.cause == Cause::Inactivity {
            sums.count(INACTIVITY, &[agent_type]);
        }
        let its_start =
            |fact: &Fact| matches!(fact, Fact::ExecutionStarted { execution: it } if *it == execution);
        if let Some(ms) = self.ms_since_last(its_start) {
            sums.took(Latency::Execution, &[agent_type], ms);
        }
        let its_cancel = |fact: &Fact| {
            let wish = Cause::Cancelled;
            matches!(fact, Fact::ExecutionEnding { execution: it, cause } if *it == execution && *cause == wish)
        };
        if let Some(ms) = self.ms_since_last(its_cancel) {
            sums.took(Latency::Cancel, &[], ms);
        }
    }

    fn ended(&self, sums: &mut Sums, cause: Cause) {
        let is_created = |fact: &Fact| matches!(fact, Fact::Created);
        let earlier = self.earlier.iter().map(|record| &record.fact);
        if is_nobodys(earlier.clone()) {
            return;
        }
        sums.count(ENDED, &[&word(&cause)]);
        if is_timeout(cause) && !self.was_quarantined() {
            sums.count(TIMEOUT_CLEANUPS, &[GONE]);
        }
        if let Some(ms) = self.ms_since_last(is_created) {
            sums.took(Latency::Lifetime, &[], ms);
        }
        if let Some(ms) = self.stop_ms() {
            sums.took(Latency::Stop, &[], ms);
        }
        if is_failed_start(cause, earlier) {
            sums.count(STARTS_FAILED, &[]);
        }
        self.used(sums);
    }

    fn used(&self, sums: &mut Sums) {
        let Some(used) = self.used else { return };
        let agent_type = [self.agent_type.as_str()];
        if let Some(cpu_ms) = used.cpu_ms {
            sums.add(CPU, &agent_type, cpu_ms);
            sums.count(CPU_COUNTED, &agent_type);
        }
        if let Some(bytes) = used.memory_peak_bytes {
            sums.add(MEMORY_PEAKS, &agent_type, bytes);
            sums.count(MEMORY_COUNTED, &agent_type);
            sums.add(&memory_peak(), &[], bytes);
        }
    }

    fn freed(&self, sums: &mut Sums) {
        if self.ends_a_stop() {
            sums.count(STOP_ATTEMPTS, &[GONE]);
        }
        if self.proves_a_stray_gone() {
            sums.count(CLEANUP_ITEMS, &[ORPHANED_ENDED]);
        }
    }

    /// The first verdict stays: what is proven gone hours later was not cleaned up in its time.
    fn quarantined(&self, sums: &mut Sums) {
        sums.count(QUARANTINES, &[]);
        let is_somebodys = !is_nobodys(self.earlier.iter().map(|record| &record.fact));
        let for_time = self.ends_for_its_time() || self.ends_an_execution_for_its_time();
        if is_somebodys && for_time && !self.was_quarantined() {
            sums.count(TIMEOUT_CLEANUPS, &[QUARANTINED]);
        }
    }

    fn was_quarantined(&self) -> bool {
        self.has(|fact| matches!(fact, Fact::Quarantined { .. }))
    }

    fn ends_for_its_time(&self) -> bool {
        self.has(|fact| matches!(fact, Fact::EndDecided { cause } if is_timeout(*cause)))
    }

    /// Whether the time of an execution ran out, and nobody has heard of its end yet.
    fn ends_an_execution_for_its_time(&self) -> bool {
        let has_ended = |id: ExecutionId| {
            self.has(|fact| matches!(fact, Fact::ExecutionEnded { execution, .. } if *execution == id))
        };
        self.has(|fact| match fact {
            Fact::ExecutionEnding { execution, cause } => is_timeout(*cause) && !has_ended(*execution),
            _ => false,
        })
    }

    /// Whether a body was found that no lease spoke of, and no proof has come since. An operator's word is none.
    fn proves_a_stray_gone(&self) -> bool {
        let of_strays = |fact: &Fact| {
            matches!(fact, Fact::StrayFound { .. } | Fact::LeaseFreed { .. } | Fact::Attested { .. })
        };
        let last = self.last(of_strays);
        last.is_some_and(|(place, _)| matches!(self.earlier[place].fact, Fact::StrayFound { .. }))
    }

    /// From the decision to the proof. None: there was nothing to stop, or the proof is an operator's word.
    fn stop_ms(&self) -> Option<u64> {
        let (decided, at) = self.last(|fact| matches!(fact, Fact::EndDecided { .. }))?;
        let since = &self.earlier[decided..];
        let stopped = since.iter().any(|record| matches!(record.fact, Fact::StopBegan { .. }));
        let attested = since.iter().any(|record| matches!(record.fact, Fact::Attested { .. }));
        (stopped && !attested).then(|| self.record.at.ms_since(at))
    }

    /// Whether the last that was heard of its stop is that it began.
    fn ends_a_stop(&self) -> bool {
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
