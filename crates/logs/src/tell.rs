//! What the control plane did, as lines for people.

use pinfold_lifecycle::{
    Attestation, Cause, ExecutionId, Fact, Generation, Outcome, OutcomeKind, ProbeFailure, Record,
    StopFailure,
};
use pinfold_store::HistoryRow;

use crate::cursor::Cursor;
use crate::entry::Source;
use crate::line::{Kept, Line, Turn};

/// No line is longer, whatever was seen.
const LONGEST: usize = 2_048;

/// The line of one record, for a reader that has come so far.
pub(crate) fn line(row: &HistoryRow, cursor: &Cursor) -> Line {
    let Record { at, fact, .. } = &row.record;
    let (execution, turn) = concerns(fact);
    Line {
        at: *at,
        source: Source::Control,
        execution,
        generation: generation(fact).unwrap_or(cursor.generation),
        kept: Kept::Text(bounded(tell(fact))),
        history: row.seq,
        place: None,
        turn,
    }
}

/// The execution whose output is all there when this is recorded.
pub(crate) fn closes(fact: &Fact) -> Option<ExecutionId> {
    match concerns(fact) {
        (execution, Some(Turn::Closes)) => execution,
        (_, Some(Turn::Opens) | None) => None,
    }
}

/// The execution of which what comes next was written after this was decided, in its first try or in a later one.
pub(crate) fn opens(fact: &Fact) -> Option<ExecutionId> {
    match concerns(fact) {
        (execution, Some(Turn::Opens)) => execution,
        (_, Some(Turn::Closes) | None) => None,
    }
}

fn concerns(fact: &Fact) -> (Option<ExecutionId>, Option<Turn>) {
    match fact {
        Fact::ExecutionStarted { execution } => (Some(*execution), Some(Turn::Opens)),
        Fact::ExecutionEnded { execution, .. } => (Some(*execution), Some(Turn::Closes)),
        Fact::ExecutionQueued { execution } | Fact::ExecutionEnding { execution, .. } => {
            (Some(*execution), None)
        }
        _ => (None, None),
    }
}

fn generation(fact: &Fact) -> Option<Generation> {
    match fact {
        Fact::LaunchBegan { generation }
        | Fact::Launched { generation }
        | Fact::StartFailed { generation, .. }
        | Fact::TryFailed { generation, .. }
        | Fact::BecameReady { generation }
        | Fact::StopBegan { generation, .. }
        | Fact::StopFailed { generation, .. }
        | Fact::Quarantined { generation, .. }
        | Fact::LookedInQuarantine { generation, .. }
        | Fact::LeaseFreed { generation }
        | Fact::StrayFound { generation } => Some(*generation),
        _ => None,
    }
}

fn tell(fact: &Fact) -> String {
    match fact {
        Fact::Created => "sandbox created".into(),
        Fact::Pooled => "prepared ahead of need".into(),
        Fact::EndMoved { until } => format!("its life ends at {} ms at the latest", until.0),
        Fact::LaunchBegan { generation } => format!("launch of body {} began", generation.0),
        Fact::Launched { generation } => format!("body {} launched", generation.0),
        Fact::StartFailed { generation, cause, why } => {
            format!("body {} did not start: {} ({why})", generation.0, word(*cause))
        }
        Fact::TryFailed { generation, cause, why } => {
            format!("body {} failed: {} ({why}); another one is to be tried", generation.0, word(*cause))
        }
        Fact::NextTryWaits { tries, at } => format!("the try after {tries} waits until {} ms", at.0),
        Fact::BecameReady { generation } => format!("ready: body {} was probed", generation.0),
        Fact::WorkAccepted { healed: false } => "work accepted".into(),
        Fact::WorkAccepted { healed: true } => "work accepted again".into(),
        Fact::RestartAsked { cause } => format!("restart asked for: {}", word(*cause)),
        Fact::EndDecided { cause } => format!("{}: the sandbox is to end", blame(*cause)),
        Fact::StopBegan { generation, attempt, forced } => {
            let manner = if *forced { ", forced" } else { "" };
            format!("stop of body {} began (attempt {attempt}{manner})", generation.0)
        }
        Fact::StopFailed { generation, attempt, failure } => {
            format!("stop of body {} failed (attempt {attempt}): {}", generation.0, stop_failure(failure))
        }
        Fact::Quarantined { generation, failure } => {
            format!("quarantined: body {} is not proven gone: {}", generation.0, stop_failure(failure))
        }
        Fact::LookedInQuarantine { generation, found } => {
            format!("looked for quarantined body {}: {found}", generation.0)
        }
        Fact::Attested { attestation: Attestation { by, reason, .. } } => {
            format!("{by} attests that the body is gone: {reason}")
        }
        Fact::LeaseFreed { generation } => format!("body {} is gone", generation.0),
        Fact::Ended { cause } => format!("sandbox ended: {}", word(*cause)),
        Fact::StrayFound { generation } => format!("orphaned sandbox: body {} was found", generation.0),
        Fact::BecameUnhealthy { failure } => format!("unhealthy: {}", probe_failure(failure)),
        Fact::BecameHealthy => "healthy again".into(),
        Fact::InDoubt { why } => format!("in doubt: {why}"),
        Fact::UnexpectedBodies { generations } => {
            let numbers: Vec<_> = generations.iter().map(|generation| generation.0.to_string()).collect();
            format!("unexpected bodies: {}", numbers.join(", "))
        }
        Fact::Reconciled { previous_status } => format!("reconciled, was {previous_status}"),
        Fact::Adopted { from } => format!("adopted from {from}"),
        Fact::KeptAlive { until } => format!("kept alive until {} ms", until.0),
        Fact::ForgetAsked => "removal asked for".into(),
        Fact::ExecutionQueued { execution } => format!("{execution} queued"),
        Fact::ExecutionStarted { execution } => format!("{execution} started"),
        Fact::ExecutionEnding { execution, cause } => {
            format!("{}: {execution} is to end", blame(*cause))
        }
        Fact::ExecutionEnded { execution, outcome } => ended(*execution, outcome),
        Fact::LateAnswer { answer, .. } => format!("answer `{answer}` came too late and changes nothing"),
    }
}

fn ended(execution: ExecutionId, outcome: &Outcome) -> String {
    let code = outcome.exit_code.map(|code| format!(" with code {code}")).unwrap_or_default();
    let detail = outcome.detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
    let how = match outcome.kind {
        OutcomeKind::Exited => format!("exited{code}"),
        OutcomeKind::Failed => format!("failed{code}: {}", word(outcome.cause)),
        OutcomeKind::Cancelled => format!("cancelled: {}", word(outcome.cause)),
        OutcomeKind::TimedOut => format!("ended by {}", blame(outcome.cause)),
        OutcomeKind::Lost => format!("lost: {}", word(outcome.cause)),
    };
    format!("{execution} {how}{detail}")
}

/// A time limit can be found as what it is.
fn blame(cause: Cause) -> String {
    match cause {
        Cause::TimeLimit | Cause::Inactivity | Cause::Idle | Cause::MaxLife | Cause::StartDeadline => {
            format!("timeout error: {}", word(cause))
        }
        _ => word(cause),
    }
}

fn stop_failure(failure: &StopFailure) -> String {
    match failure {
        StopFailure::StillPresent { what } => format!("still there: {what}"),
        StopFailure::LookFailed { why } => format!("could not look: {why}"),
        StopFailure::DeadlinePassed => "no answer in time".into(),
        StopFailure::UnreadableRow { why } => format!("its row cannot be read: {why}"),
    }
}

fn probe_failure(failure: &ProbeFailure) -> String {
    match failure {
        ProbeFailure::Exec { why } => format!("running a command fails: {why}"),
        ProbeFailure::Files { why } => format!("its files cannot be reached: {why}"),
        ProbeFailure::Control { why } => format!("its keeper does not answer: {why}"),
    }
}

/// A cause as users see it.
fn word(cause: Cause) -> String {
    match serde_json::to_value(cause) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => format!("{cause:?}"),
    }
}

fn bounded(mut text: String) -> String {
    if text.len() > LONGEST {
        let end = text.floor_char_boundary(LONGEST);
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
    fn a_timeout_has_the_same_words_whoever_noticed_it() {
        for (cause, words) in [
            (Cause::TimeLimit, "timeout error: time_limit"),
            (Cause::Inactivity, "timeout error: inactivity"),
            (Cause::Idle, "timeout error: idle"),
            (Cause::MaxLife, "timeout error: max_life"),
        ] {
            let outcome = Outcome::ended_for(cause);

            let decided = tell(&Fact::ExecutionEnding { execution: EXECUTION, cause });
            let arrived = tell(&Fact::ExecutionEnded { execution: EXECUTION, outcome });

            assert_eq!(decided, format!("{words}: {EXECUTION} is to end"));
            assert_eq!(arrived, format!("{EXECUTION} ended by {words}"));
        }
    }
}
