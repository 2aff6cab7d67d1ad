//! Log messages for facts, in words and fields. Operators search for some of the texts: see `docs/runbook.md`.

use std::borrow::Cow;

use pinfold_lifecycle::{
    Cause, ExecutionId, Fact, Fence, Generation, NodeId, Outcome, OutcomeKind, SandboxId, Timestamp,
};

/// One log line. Text that a sandbox or a user wrote is only in `reason`: a field is escaped when it is printed, the
/// message is not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LogMessage<'a> {
    is_warning: bool,
    text: Cow<'static, str>,
    generation: Option<Generation>,
    execution: Option<ExecutionId>,
    cause: Option<Cause>,
    exit_code: Option<i32>,
    attempt: Option<u32>,
    until: Option<Timestamp>,
    fence: Option<Fence>,
    reason: Option<Cow<'a, str>>,
}

fn info<'a>(text: impl Into<Cow<'static, str>>) -> LogMessage<'a> {
    LogMessage {
        is_warning: false,
        text: text.into(),
        generation: None,
        execution: None,
        cause: None,
        exit_code: None,
        attempt: None,
        until: None,
        fence: None,
        reason: None,
    }
}

fn warning<'a>(text: impl Into<Cow<'static, str>>) -> LogMessage<'a> {
    LogMessage { is_warning: true, ..info(text) }
}

impl<'a> LogMessage<'a> {
    fn generation(self, generation: Generation) -> Self {
        Self { generation: Some(generation), ..self }
    }

    fn execution(self, execution: ExecutionId) -> Self {
        Self { execution: Some(execution), ..self }
    }

    fn cause(self, cause: Cause) -> Self {
        Self { cause: Some(cause), ..self }
    }

    fn outcome(self, outcome: &'a Outcome) -> Self {
        let reason = outcome.detail.as_deref().map(Cow::Borrowed);
        Self { cause: Some(outcome.cause), exit_code: outcome.exit_code, reason, ..self }
    }

    fn attempt(self, attempt: u32) -> Self {
        Self { attempt: Some(attempt), ..self }
    }

    fn until(self, until: Timestamp) -> Self {
        Self { until: Some(until), ..self }
    }

    fn reason(self, reason: impl Into<Cow<'a, str>>) -> Self {
        Self { reason: Some(reason.into()), ..self }
    }

    /// Fields without a value are left out of the line.
    pub(crate) fn log(&self, sandbox_id: SandboxId, node: NodeId) {
        macro_rules! line {
            ($log:ident) => {
                tracing::$log!(
                    %sandbox_id,
                    %node,
                    generation = self.generation.map(|generation| generation.0),
                    execution_id = self.execution.map(display),
                    cause = self.cause.map(Cause::name),
                    exit_code = self.exit_code,
                    attempt = self.attempt,
                    until_ms = self.until.map(|until| until.0),
                    fence = self.fence.map(|fence| fence.0),
                    reason = self.reason.as_deref(),
                    "{}",
                    self.text
                )
            };
        }
        if self.is_warning { line!(warn) } else { line!(info) }
    }
}

/// Orphaned instances are logged where they are found, too.
pub(crate) fn log_message(id: SandboxId, fact: &Fact) -> LogMessage<'_> {
    match fact {
        Fact::Created => info("sandbox created"),
        Fact::Pooled => info("preparing an instance for the pool"),
        Fact::DeadlineUpdated { until } => info("instance accepted its new deadline").until(*until),
        Fact::LaunchBegan { generation } => info("launch began").generation(*generation),
        Fact::Launched { generation } => info("instance launched").generation(*generation),
        Fact::StartFailed { generation, cause, why } => {
            info("start failed").generation(*generation).cause(*cause).reason(why)
        }
        Fact::AttemptFailed { generation, cause, why } => {
            info("instance failed, its executions will be retried on another one")
                .generation(*generation)
                .cause(*cause)
                .reason(why)
        }
        Fact::RetryScheduled { attempts, at } => info("next launch scheduled").attempt(*attempts).until(*at),
        Fact::BecameReady { generation } => info("sandbox is ready").generation(*generation),
        Fact::WorkAccepted { healed: false } => info("first execution accepted"),
        Fact::WorkAccepted { healed: true } => {
            info("a running execution was found, its start deadline is cleared")
        }
        Fact::RestartRequested { cause } => info("restart requested").cause(*cause),
        Fact::EndDecided { cause } => end_decided(id, *cause),
        Fact::StopBegan { generation, attempt, forced } => {
            let text = if *forced { "forced stop began" } else { "stop began" };
            info(text).generation(*generation).attempt(*attempt)
        }
        Fact::StopFailed { generation, attempt, failure } => {
            info("stop failed").generation(*generation).attempt(*attempt).reason(failure.to_string())
        }
        Fact::Quarantined { generation, failure } => {
            info("instance quarantined: it could not be proven gone")
                .generation(*generation)
                .reason(failure.to_string())
        }
        Fact::ObservedInQuarantine { generation, found } => {
            info("quarantined instance observed again").generation(*generation).reason(found)
        }
        Fact::Attested { attestation } => info("an operator attested that the quarantined instance is gone")
            .reason(format!("{}: {}", attestation.by, attestation.reason)),
        Fact::LeaseFreed { generation } => info("instance is gone, lease freed").generation(*generation),
        Fact::Ended { cause } => info("sandbox ended").cause(*cause),
        Fact::StrayFound { generation } => {
            info("an instance was found after the end, stopping it").generation(*generation)
        }
        Fact::BecameUnhealthy { failure } => {
            warning(format!("Unhealthy sandbox detected: {id}")).reason(failure.to_string())
        }
        Fact::BecameHealthy => info("sandbox is healthy again"),
        Fact::InDoubt { why } => info("liveness is unknown, observing again").reason(why),
        Fact::UnexpectedInstances { generations } => {
            let list: Vec<_> = generations.iter().map(|generation| generation.0.to_string()).collect();
            info(format!("instances of unexpected generations found: {}", list.join(", ")))
        }
        Fact::Reconciled { previous_status } => {
            info(format!("Reconciled state for {id}")).reason(format!("it was recorded as {previous_status}"))
        }
        Fact::Adopted { from } => info(format!("adopted from node {from}, which is dead")),
        Fact::KeptAlive { until } => info("kept alive").until(*until),
        Fact::ForgetRequested => info("deletion of the record requested"),
        Fact::ExecutionQueued { execution } => info("execution queued").execution(*execution),
        Fact::FilesPut { execution } => info("input files written").execution(*execution),
        Fact::ExecutionStarted { execution } => info("execution started").execution(*execution),
        Fact::ExecutionEnding { execution, cause } => {
            info("ending an execution").execution(*execution).cause(*cause)
        }
        Fact::ExecutionCollecting { execution } => {
            info("process is gone, collecting artifacts").execution(*execution)
        }
        Fact::ExecutionEnded { execution, outcome } => execution_ended(id, *execution, outcome),
        Fact::LateAnswer { fence, answer } => {
            let late = info("late result ignored: its effect is no longer pending").reason(answer);
            LogMessage { fence: Some(*fence), ..late }
        }
    }
}

fn end_decided<'a>(id: SandboxId, cause: Cause) -> LogMessage<'a> {
    let message = match (timeout(cause), cause) {
        (None, Cause::KeeperKilled) => {
            warning(format!("the keeper of {id} was killed: stopping what is left"))
        }
        (None, _) => info("stopping the sandbox"),
        // Ending an idle sandbox, or one at its maximum life, is planned and needs no warning.
        (Some(limit), Cause::Idle | Cause::MaxLife) => info(format!("timeout error: {limit}: stopping {id}")),
        (Some(limit), _) => warning(format!("timeout error: {limit}: stopping {id}")),
    };
    message.cause(cause)
}

fn execution_ended(id: SandboxId, execution: ExecutionId, outcome: &Outcome) -> LogMessage<'_> {
    let message = if outcome.kind == OutcomeKind::TimedOut {
        let limit = timeout(outcome.cause).unwrap_or("timeout");
        warning(format!("timeout error: {limit}: {execution} in {id} was ended"))
    } else {
        info("execution ended")
    };
    message.execution(execution).outcome(outcome)
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
        | Cause::ProviderError
        | Cause::KeeperKilled => None,
    }
}

#[cfg(test)]
mod tests {
    use pinfold_lifecycle::ProbeFailure;

    use super::*;

    const SANDBOX: SandboxId = SandboxId(7);
    const EXECUTION: ExecutionId = ExecutionId(8);

    fn ended(outcome: Outcome) -> Fact {
        Fact::ExecutionEnded { execution: EXECUTION, outcome }
    }

    #[test]
    fn facts_that_alert_operators_have_their_searchable_log_messages() {
        let failure = ProbeFailure::Exec { why: "no answer".into() };
        for (fact, is_warning, text) in [
            (
                Fact::Reconciled { previous_status: "live".into() },
                false,
                format!("Reconciled state for {SANDBOX}"),
            ),
            (Fact::BecameUnhealthy { failure }, true, format!("Unhealthy sandbox detected: {SANDBOX}")),
            (
                ended(Outcome::ended_for(Cause::TimeLimit)),
                true,
                format!("timeout error: time_limit: {EXECUTION} in {SANDBOX} was ended"),
            ),
            (
                ended(Outcome::ended_for(Cause::Inactivity)),
                true,
                format!("timeout error: inactivity: {EXECUTION} in {SANDBOX} was ended"),
            ),
            (
                Fact::EndDecided { cause: Cause::StartDeadline },
                true,
                format!("timeout error: start_deadline: stopping {SANDBOX}"),
            ),
            (
                Fact::EndDecided { cause: Cause::MaxLife },
                false,
                format!("timeout error: max_life: stopping {SANDBOX}"),
            ),
            (Fact::EndDecided { cause: Cause::StoppedByUser }, false, "stopping the sandbox".into()),
            (ended(Outcome::exited(1)), false, "execution ended".into()),
            (ended(Outcome::ended_for(Cause::MemoryLimit)), false, "execution ended".into()),
            (Fact::BecameHealthy, false, "sandbox is healthy again".into()),
        ] {
            let message = log_message(SANDBOX, &fact);
            assert_eq!((message.is_warning, &*message.text), (is_warning, &*text), "{fact:?}");
        }
    }

    #[test]
    fn failed_start_is_logged_with_generation_cause_and_reason() {
        let why = "no such image".to_owned();
        let fact = Fact::StartFailed { generation: Generation(3), cause: Cause::StartFailed, why };

        let message = log_message(SANDBOX, &fact);

        assert_eq!(
            message,
            info("start failed").generation(Generation(3)).cause(Cause::StartFailed).reason("no such image")
        );
    }
}
