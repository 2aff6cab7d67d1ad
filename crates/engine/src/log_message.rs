//! Log messages for facts: the texts that operators search for.

use pinfold_lifecycle::{Cause, Fact, Outcome, OutcomeKind, SandboxId};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LogMessage {
    Info(String),
    Warning(String),
}

/// None: no message beside the fact itself. Orphaned instances are logged where they are found.
pub(crate) fn log_message(id: SandboxId, fact: &Fact) -> Option<LogMessage> {
    match fact {
        Fact::Reconciled { .. } => Some(LogMessage::Info(format!("Reconciled state for {id}"))),
        Fact::BecameUnhealthy { .. } => {
            Some(LogMessage::Warning(format!("Unhealthy sandbox detected: {id}")))
        }
        Fact::EndDecided { cause } => timeout(*cause).map(|limit| {
            let text = format!("timeout error: {limit}: stopping {id}");
            // Ending an idle sandbox, or one at its maximum life, is planned and needs no warning.
            let is_planned = matches!(cause, Cause::Idle | Cause::MaxLife);
            if is_planned { LogMessage::Info(text) } else { LogMessage::Warning(text) }
        }),
        Fact::ExecutionEnded { execution, outcome: Outcome { kind: OutcomeKind::TimedOut, cause, .. } } => {
            let limit = timeout(*cause).unwrap_or("timeout");
            Some(LogMessage::Warning(format!("timeout error: {limit}: {execution} in {id} was ended")))
        }
        Fact::Created
        | Fact::Pooled
        | Fact::DeadlineUpdated { .. }
        | Fact::LaunchBegan { .. }
        | Fact::Launched { .. }
        | Fact::StartFailed { .. }
        | Fact::AttemptFailed { .. }
        | Fact::RetryScheduled { .. }
        | Fact::BecameReady { .. }
        | Fact::WorkAccepted { .. }
        | Fact::RestartRequested { .. }
        | Fact::StopBegan { .. }
        | Fact::StopFailed { .. }
        | Fact::Quarantined { .. }
        | Fact::ObservedInQuarantine { .. }
        | Fact::Attested { .. }
        | Fact::LeaseFreed { .. }
        | Fact::Ended { .. }
        | Fact::StrayFound { .. }
        | Fact::BecameHealthy
        | Fact::InDoubt { .. }
        | Fact::UnexpectedInstances { .. }
        | Fact::Adopted { .. }
        | Fact::KeptAlive { .. }
        | Fact::ForgetRequested
        | Fact::ExecutionQueued { .. }
        | Fact::FilesPut { .. }
        | Fact::ExecutionStarted { .. }
        | Fact::ExecutionEnding { .. }
        | Fact::ExecutionCollecting { .. }
        | Fact::ExecutionEnded { .. }
        | Fact::LateAnswer { .. } => None,
    }
}

/// The name of the time limit, if the cause is one.
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
    fn facts_that_alert_operators_have_their_searchable_log_messages() {
        let news = |text: String| Some(LogMessage::Info(text));
        let warning = |text: String| Some(LogMessage::Warning(text));
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
                warning(format!("timeout error: start_deadline: stopping {SANDBOX}")),
            ),
            (
                Fact::EndDecided { cause: Cause::MaxLife },
                news(format!("timeout error: max_life: stopping {SANDBOX}")),
            ),
            (Fact::EndDecided { cause: Cause::StoppedByUser }, None),
            (ended(Outcome::exited(1)), None),
            (ended(Outcome::ended_for(Cause::MemoryLimit)), None),
            (Fact::BecameHealthy, None),
        ] {
            assert_eq!(log_message(SANDBOX, &fact), expected, "{fact:?}");
        }
    }
}
