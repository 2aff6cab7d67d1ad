//! History records of the control plane as log lines for people.

use pinfold_lifecycle::{
    Attestation, Cause, ExecutionId, Fact, Generation, Outcome, OutcomeKind, ProbeFailure, Record,
    StopFailure,
};
use pinfold_store::HistoryRow;

use crate::cursor::Cursor;
use crate::entry::Source;
use crate::log_line::{LineContent, LogLine, OutputBoundary};

/// The longest line in bytes.
const MAX_LINE: usize = 2_048;

/// The line of one record, for a reader at this cursor.
pub(crate) fn line(row: &HistoryRow, cursor: &Cursor) -> LogLine {
    let Record { at, fact, .. } = &row.record;
    let (execution, boundary) = concerns(fact);
    LogLine {
        at: *at,
        source: Source::Control,
        execution,
        generation: generation(fact).unwrap_or(cursor.generation),
        content: LineContent::Text(truncated(fact_text(fact))),
        history: row.seq,
        position: None,
        boundary,
    }
}

/// The execution whose output is complete when this fact is recorded.
pub(crate) fn output_ended_by(fact: &Fact) -> Option<ExecutionId> {
    match concerns(fact) {
        (execution, Some(OutputBoundary::Ends)) => execution,
        (_, Some(OutputBoundary::Begins) | None) => None,
    }
}

/// The execution whose further output was written after this fact, in its first attempt or a later one.
pub(crate) fn output_begun_by(fact: &Fact) -> Option<ExecutionId> {
    match concerns(fact) {
        (execution, Some(OutputBoundary::Begins)) => execution,
        (_, Some(OutputBoundary::Ends) | None) => None,
    }
}

fn concerns(fact: &Fact) -> (Option<ExecutionId>, Option<OutputBoundary>) {
    match fact {
        Fact::ExecutionStarted { execution } => (Some(*execution), Some(OutputBoundary::Begins)),
        Fact::ExecutionEnded { execution, .. } => (Some(*execution), Some(OutputBoundary::Ends)),
        Fact::ExecutionQueued { execution }
        | Fact::FilesPut { execution }
        | Fact::ExecutionEnding { execution, .. }
        | Fact::ExecutionCollecting { execution } => (Some(*execution), None),
        _ => (None, None),
    }
}

fn generation(fact: &Fact) -> Option<Generation> {
    match fact {
        Fact::LaunchBegan { generation }
        | Fact::Launched { generation }
        | Fact::StartFailed { generation, .. }
        | Fact::AttemptFailed { generation, .. }
        | Fact::BecameReady { generation }
        | Fact::StopBegan { generation, .. }
        | Fact::StopFailed { generation, .. }
        | Fact::Quarantined { generation, .. }
        | Fact::ObservedInQuarantine { generation, .. }
        | Fact::LeaseFreed { generation }
        | Fact::StrayFound { generation } => Some(*generation),
        _ => None,
    }
}

fn fact_text(fact: &Fact) -> String {
    match fact {
        Fact::Created => "sandbox created".into(),
        Fact::Pooled => "started for the warm pool".into(),
        Fact::DeadlineUpdated { until } => format!("its deadline is now {} ms since the epoch", until.0),
        Fact::LaunchBegan { generation } => format!("launch of instance {} began", generation.0),
        Fact::Launched { generation } => format!("instance {} launched", generation.0),
        Fact::StartFailed { generation, cause, why } => {
            format!("instance {} did not start: {} ({why})", generation.0, cause_name(*cause))
        }
        Fact::AttemptFailed { generation, cause, why } => {
            format!(
                "instance {} failed: {} ({why}); another attempt follows",
                generation.0,
                cause_name(*cause)
            )
        }
        Fact::RetryScheduled { attempts, at } => {
            format!("attempt {} is scheduled at {} ms since the epoch", attempts + 1, at.0)
        }
        Fact::BecameReady { generation } => format!("ready: instance {} was probed", generation.0),
        Fact::WorkAccepted { healed: false } => "work accepted".into(),
        Fact::WorkAccepted { healed: true } => "work accepted again".into(),
        Fact::RestartRequested { cause } => format!("restart requested: {}", cause_name(*cause)),
        Fact::EndDecided { cause } => format!("{}: stopping the sandbox", cause_text(*cause)),
        Fact::StopBegan { generation, attempt, forced } => {
            let manner = if *forced { ", forced" } else { "" };
            format!("stop of instance {} began (attempt {attempt}{manner})", generation.0)
        }
        Fact::StopFailed { generation, attempt, failure } => {
            format!("stop of instance {} failed (attempt {attempt}): {}", generation.0, stop_failure(failure))
        }
        Fact::Quarantined { generation, failure } => {
            format!("quarantined: instance {} is not proven gone: {}", generation.0, stop_failure(failure))
        }
        Fact::ObservedInQuarantine { generation, found } => {
            format!("checked quarantined instance {}: {found}", generation.0)
        }
        Fact::Attested { attestation: Attestation { by, reason, .. } } => {
            format!("{by} attests that the instance is gone: {reason}")
        }
        Fact::LeaseFreed { generation } => format!("instance {} is gone", generation.0),
        Fact::Ended { cause } => format!("sandbox ended: {}", cause_name(*cause)),
        Fact::StrayFound { generation } => format!("orphaned sandbox: instance {} was found", generation.0),
        Fact::BecameUnhealthy { failure } => format!("unhealthy: {}", probe_failure(failure)),
        Fact::BecameHealthy => "healthy again".into(),
        Fact::InDoubt { why } => format!("state unknown: {why}"),
        Fact::UnexpectedInstances { generations } => {
            let numbers: Vec<_> = generations.iter().map(|generation| generation.0.to_string()).collect();
            format!("unexpected instances: {}", numbers.join(", "))
        }
        Fact::Reconciled { previous_status } => format!("reconciled, was {previous_status}"),
        Fact::Adopted { from } => format!("adopted from {from}"),
        Fact::KeptAlive { until } => format!("kept alive until {} ms since the epoch", until.0),
        Fact::ForgetRequested => "removal requested".into(),
        Fact::ExecutionQueued { execution } => format!("{execution} queued"),
        Fact::FilesPut { execution } => format!("input files of {execution} written"),
        Fact::ExecutionStarted { execution } => format!("{execution} started"),
        Fact::ExecutionEnding { execution, cause } => {
            format!("{}: stopping {execution}", cause_text(*cause))
        }
        Fact::ExecutionCollecting { execution } => format!("collecting artifacts of {execution}"),
        Fact::ExecutionEnded { execution, outcome } => ended(*execution, outcome),
        Fact::LateAnswer { answer, .. } => format!("late answer `{answer}` ignored"),
    }
}

fn ended(execution: ExecutionId, outcome: &Outcome) -> String {
    let code = outcome.exit_code.map(|code| format!(" with code {code}")).unwrap_or_default();
    let detail = outcome.detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
    let how = match outcome.kind {
        OutcomeKind::Exited => format!("exited{code}"),
        OutcomeKind::Failed => format!("failed{code}: {}", cause_name(outcome.cause)),
        OutcomeKind::Cancelled => format!("cancelled: {}", cause_name(outcome.cause)),
        OutcomeKind::TimedOut => format!("ended by {}", cause_text(outcome.cause)),
        OutcomeKind::Lost => format!("lost: {}", cause_name(outcome.cause)),
    };
    format!("{execution} {how}{detail}")
}

/// The cause; those of time limits begin with `timeout error`, so that they can be searched for.
fn cause_text(cause: Cause) -> String {
    match cause {
        Cause::TimeLimit | Cause::Inactivity | Cause::Idle | Cause::MaxLife | Cause::StartDeadline => {
            format!("timeout error: {}", cause_name(cause))
        }
        _ => cause_name(cause),
    }
}

fn stop_failure(failure: &StopFailure) -> String {
    match failure {
        StopFailure::StillPresent { what } => format!("still there: {what}"),
        StopFailure::ObservationFailed { why } => format!("could not check: {why}"),
        StopFailure::DeadlinePassed => "no answer in time".into(),
        StopFailure::UnreadableRow { why } => format!("its row cannot be read: {why}"),
    }
}

fn probe_failure(failure: &ProbeFailure) -> String {
    match failure {
        ProbeFailure::Exec { why } => format!("running a command failed: {why}"),
        ProbeFailure::Files { why } => format!("files cannot be accessed: {why}"),
        ProbeFailure::Control { why } => format!("the keeper does not answer: {why}"),
    }
}

/// The name of a cause as users see it.
fn cause_name(cause: Cause) -> String {
    cause.name().to_owned()
}

fn truncated(mut text: String) -> String {
    if text.len() > MAX_LINE {
        let end = text.floor_char_boundary(MAX_LINE);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXECUTION: ExecutionId = ExecutionId(8);

    #[test]
    fn timeout_is_worded_alike_when_decided_and_when_ended() {
        for (cause, words) in [
            (Cause::TimeLimit, "timeout error: time_limit"),
            (Cause::Inactivity, "timeout error: inactivity"),
            (Cause::Idle, "timeout error: idle"),
            (Cause::MaxLife, "timeout error: max_life"),
        ] {
            let outcome = Outcome::ended_for(cause);

            let decided = fact_text(&Fact::ExecutionEnding { execution: EXECUTION, cause });
            let arrived = fact_text(&Fact::ExecutionEnded { execution: EXECUTION, outcome });

            assert_eq!(decided, format!("{words}: stopping {EXECUTION}"));
            assert_eq!(arrived, format!("{EXECUTION} ended by {words}"));
        }
    }
}
