//! What users are told about a sandbox: derived from its state and the time, never stored.

use serde::{Deserialize, Serialize};

use crate::{Cause, Guard, Lease, Life, Live, Policy, ProbeFailure, Sandbox, Timestamp, Verdict};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub state: State,
    /// Why it is in this state, from a closed list where it ended.
    pub cause: Option<Cause>,
    pub message: String,
    /// When readiness was last proven.
    pub verified_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Provisioning,
    Ready,
    Running,
    Unhealthy,
    Unknown,
    Terminating,
    Quarantined,
    Completed,
    Failed,
    Terminated,
}

/// The status at this moment. Until its lease is free a sandbox is never in a final state.
#[must_use]
pub fn status(sandbox: &Sandbox, now: Timestamp, policy: &Policy) -> Status {
    match (&sandbox.lease, &sandbox.life) {
        (Lease::Quarantined { last, .. }, life) => {
            plain(State::Quarantined, cause_of(life), format!("its body could not be proven gone: {last:?}"))
        }
        (Lease::Stopping { attempt, .. }, Life::Ending { .. } | Life::Ended { .. }) => {
            plain(State::Terminating, cause_of(&sandbox.life), format!("stop attempt {attempt} is under way"))
        }
        (Lease::StopWaiting { attempts, last, .. }, Life::Ending { .. } | Life::Ended { .. }) => {
            let message = format!("{attempts} attempts to stop did not prove absence: {last:?}");
            plain(State::Terminating, cause_of(&sandbox.life), message)
        }
        (Lease::Free { .. }, Life::Ended { cause, .. }) => {
            plain(final_state(*cause), Some(*cause), String::new())
        }
        (Lease::Live(live), _) => of_live(sandbox, live, now, policy),
        (Lease::Stopping { .. } | Lease::StopWaiting { .. }, Life::Wanted) => {
            plain(State::Provisioning, None, "the earlier body is being stopped".into())
        }
        (Lease::LaunchWaiting { .. }, _) => {
            let tries = sandbox.launches;
            plain(
                State::Provisioning,
                None,
                format!("after {tries} failed tries the next one waits for its time"),
            )
        }
        (Lease::Starting { step, .. }, _) => {
            plain(State::Provisioning, None, format!("{step:?} is under way"))
        }
        (Lease::Free { .. }, Life::Wanted | Life::Ending { .. }) => {
            plain(State::Provisioning, None, String::new())
        }
    }
}

fn of_live(sandbox: &Sandbox, live: &Live, now: Timestamp, policy: &Policy) -> Status {
    let fresh = now.ms_since(live.health.verified_at) <= policy.evidence_ms;
    let (state, message) = match &live.health.verdict {
        Verdict::Unhealthy { failure, .. } => (State::Unhealthy, describe(failure)),
        Verdict::Healthy if !fresh && policy.guards.hold(Guard::StaleEvidenceIsUnknown) => {
            (State::Unknown, "its last proof of readiness is too old".to_owned())
        }
        Verdict::Healthy if sandbox.executions.is_empty() => (State::Ready, String::new()),
        Verdict::Healthy => (State::Running, String::new()),
    };
    Status { state, cause: None, message, verified_at: Some(live.health.verified_at) }
}

fn plain(state: State, cause: Option<Cause>, message: String) -> Status {
    Status { state, cause, message, verified_at: None }
}

fn cause_of(life: &Life) -> Option<Cause> {
    match life {
        Life::Wanted => None,
        Life::Ending { cause, .. } | Life::Ended { cause, .. } => Some(*cause),
    }
}

fn describe(failure: &ProbeFailure) -> String {
    match failure {
        ProbeFailure::Exec { why } => format!("running a command fails: {why}"),
        ProbeFailure::Files { why } => format!("its files cannot be reached: {why}"),
        ProbeFailure::Control { why } => format!("its keeper does not answer: {why}"),
    }
}

/// What a sandbox that ended for this cause is called.
#[must_use]
pub fn final_state(cause: Cause) -> State {
    match cause {
        Cause::Completed => State::Completed,
        Cause::StoppedByUser
        | Cause::Cancelled
        | Cause::Idle
        | Cause::MaxLife
        | Cause::CallerGone
        | Cause::Shutdown
        | Cause::Orphan
        | Cause::EvictedEmergency => State::Terminated,
        Cause::ExitNonzero
        | Cause::TimeLimit
        | Cause::Inactivity
        | Cause::MemoryLimit
        | Cause::CpuLimit
        | Cause::NetworkLimit
        | Cause::DiskLimit
        | Cause::ProcessLimit
        | Cause::OutputLimit
        | Cause::OperationLimit
        | Cause::StartDeadline
        | Cause::StartFailed
        | Cause::ProbeFailed
        | Cause::Lost
        | Cause::HostRestarted
        | Cause::ProviderError => State::Failed,
    }
}
