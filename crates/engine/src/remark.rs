//! What the log says of a fact beside the fact itself: the words that whoever is on call searches for.

use pinfold_lifecycle::{Cause, Fact, Outcome, OutcomeKind, SandboxId};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Remark {
    News(String),
    Warning(String),
}

/// None: the fact speaks for itself. A body that no record speaks of is warned about where it is found.
pub(crate) fn remark(id: SandboxId, fact: &Fact) -> Option<Remark> {
    match fact {
        Fact::Reconciled { .. } => Some(Remark::News(format!("Reconciled state for {id}"))),
        Fact::BecameUnhealthy { .. } => Some(Remark::Warning(format!("Unhealthy sandbox detected: {id}"))),
        Fact::EndDecided { cause } => timeout(*cause).map(|limit| {
            let said = format!("timeout error: {limit}: {id} is to end");
            // To end what nobody uses, or has had its time, is what was asked for.
            let is_planned = matches!(cause, Cause::Idle | Cause::MaxLife);
            if is_planned { Remark::News(said) } else { Remark::Warning(said) }
        }),
        Fact::ExecutionEnded { execution, outcome: Outcome { kind: OutcomeKind::TimedOut, cause, .. } } => {
            let limit = timeout(*cause).unwrap_or("timeout");
            Some(Remark::Warning(format!("timeout error: {limit}: {execution} in {id} was ended")))
        }
        Fact::Created
        | Fact::Pooled
        | Fact::EndMoved { .. }
        | Fact::LaunchBegan { .. }
        | Fact::Launched { .. }
        | Fact::StartFailed { .. }
        | Fact::TryFailed { .. }
        | Fact::NextTryWaits { .. }
        | Fact::BecameReady { .. }
        | Fact::WorkAccepted { .. }
        | Fact::RestartAsked { .. }
        | Fact::StopBegan { .. }
        | Fact::StopFailed { .. }
        | Fact::Quarantined { .. }
        | Fact::LookedInQuarantine { .. }
        | Fact::Attested { .. }
        | Fact::LeaseFreed { .. }
        | Fact::Ended { .. }
        | Fact::StrayFound { .. }
        | Fact::BecameHealthy
        | Fact::InDoubt { .. }
        | Fact::UnexpectedBodies { .. }
        | Fact::Adopted { .. }
        | Fact::KeptAlive { .. }
        | Fact::ForgetAsked
        | Fact::ExecutionQueued { .. }
        | Fact::ExecutionStarted { .. }
        | Fact::ExecutionEnding { .. }
        | Fact::ExecutionEnded { .. }
        | Fact::LateAnswer { .. } => None,
    }
}

/// The limit that was reached, as users see it, where it is one on time.
fn timeout(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::TimeLimit => Some("time_limit"),
        Cause::Inactivity => Some("inactivity"),
        Cause::Idle => Some("idle"),
        Cause::MaxLife => Some("max_life"),
        Cause::StartDeadline => Some("start_deadline"),
        Cause::Completed
        | Cause::ExitNonzero
        | Cause::StoppedByUser
        | Cause::MemoryLimit
        | Cause::CpuLimit
        | Cause::NetworkLimit
        | Cause::DiskLimit
        | Cause::ProcessLimit
        | Cause::OutputLimit
        | Cause::OperationLimit
        | Cause::StartFailed
        | Cause::ProbeFailed
        | Cause::Cancelled
        | Cause::CallerGone
        | Cause::Shutdown
        | Cause::Orphan
        | Cause::Lost
        | Cause::HostRestarted
        | Cause::EvictedEmergency
        | Cause::ProviderError => None,
    }
}

#[cfg(test)]
mod tests {
    use pinfold_lifecycle::{ExecutionId, ProbeFailure};

    use super::*;

    const SANDBOX: SandboxId = SandboxId(7);
    const EXECUTION: ExecutionId = ExecutionId(8);

    fn ended(outcome: Outcome) -> Fact {
        Fact::ExecutionEnded { execution: EXECUTION, outcome }
    }

    #[test]
    fn what_people_are_called_for_has_the_words_that_they_search_for() {
        let news = |said: String| Some(Remark::News(said));
        let warning = |said: String| Some(Remark::Warning(said));
        let failure = ProbeFailure::Exec { why: "no answer".into() };
        for (fact, expected) in [
            (
                Fact::Reconciled { previous_status: "live".into() },
                news(format!("Reconciled state for {SANDBOX}")),
            ),
            (Fact::BecameUnhealthy { failure }, warning(format!("Unhealthy sandbox detected: {SANDBOX}"))),
            (
                ended(Outcome::ended_for(Cause::TimeLimit)),
                warning(format!("timeout error: time_limit: {EXECUTION} in {SANDBOX} was ended")),
            ),
            (
                ended(Outcome::ended_for(Cause::Inactivity)),
                warning(format!("timeout error: inactivity: {EXECUTION} in {SANDBOX} was ended")),
            ),
            (
                Fact::EndDecided { cause: Cause::StartDeadline },
                warning(format!("timeout error: start_deadline: {SANDBOX} is to end")),
            ),
            (
                Fact::EndDecided { cause: Cause::MaxLife },
                news(format!("timeout error: max_life: {SANDBOX} is to end")),
            ),
            (Fact::EndDecided { cause: Cause::StoppedByUser }, None),
            (ended(Outcome::exited(1)), None),
            (ended(Outcome::ended_for(Cause::MemoryLimit)), None),
            (Fact::BecameHealthy, None),
        ] {
            assert_eq!(remark(SANDBOX, &fact), expected, "{fact:?}");
        }
    }
}
