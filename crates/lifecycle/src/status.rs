//! The status that users see. It is derived from the row and the time, never stored.

use serde::{Deserialize, Serialize};

use crate::{Cause, Guard, Lease, Life, Live, Policy, Sandbox, Timestamp, Verdict};

/// State, cause and message of a sandbox at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub state: State,
    /// The cause of the end, if an end is decided.
    pub cause: Option<Cause>,
    pub message: String,
    /// When readiness was last proven.
    pub verified_at: Option<Timestamp>,
}

/// The states that users see.
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

/// The status at this moment. A sandbox is never in a final state before its lease is free.
#[must_use]
pub fn status(sandbox: &Sandbox, now: Timestamp, policy: &Policy) -> Status {
    match (&sandbox.lease, &sandbox.life) {
        (Lease::Quarantined { last, .. }, life) => unverified(
            State::Quarantined,
            cause_of(life),
            format!("the instance could not be proven gone: {last}"),
        ),
        (Lease::Stopping { attempt, .. }, Life::Ending { .. } | Life::Ended { .. }) => unverified(
            State::Terminating,
            cause_of(&sandbox.life),
            format!("stop attempt {attempt} is under way"),
        ),
        (Lease::StopWaiting { attempts, last, .. }, Life::Ending { .. } | Life::Ended { .. }) => {
            let message = format!("{attempts} stop attempts did not prove absence: {last}");
            unverified(State::Terminating, cause_of(&sandbox.life), message)
        }
        (Lease::Free { .. }, Life::Ended { cause, .. }) => {
            unverified(final_state(*cause), Some(*cause), sandbox.end_reason.clone().unwrap_or_default())
        }
        (Lease::Live(live), _) => live_status(sandbox, live, now, policy),
        (Lease::Stopping { .. } | Lease::StopWaiting { .. }, Life::Wanted) => {
            unverified(State::Provisioning, None, "the previous instance is being stopped".into())
        }
        (Lease::LaunchWaiting { .. }, _) => {
            let launches = sandbox.launches;
            unverified(
                State::Provisioning,
                None,
                format!("{launches} launches failed, the next one is scheduled"),
            )
        }
        (Lease::Starting { step, .. }, _) => {
            unverified(State::Provisioning, None, format!("{step} is under way"))
        }
        (Lease::Free { .. }, Life::Wanted | Life::Ending { .. }) => {
            unverified(State::Provisioning, None, String::new())
        }
    }
}

fn live_status(sandbox: &Sandbox, live: &Live, now: Timestamp, policy: &Policy) -> Status {
    let fresh = now.ms_since(live.health.verified_at) <= policy.evidence_ms;
    let (state, message) = match &live.health.verdict {
        Verdict::Unhealthy { failure, .. } => (State::Unhealthy, failure.to_string()),
        // A check without a result leaves open whether the last passed one still holds.
        Verdict::Healthy if live.health.inconclusive_since.is_some() => {
            (State::Unknown, "its last check gave no result".to_owned())
        }
        Verdict::Healthy if !fresh && policy.guards.hold(Guard::StaleEvidenceIsUnknown) => {
            (State::Unknown, "the last passed probe is too old".to_owned())
        }
        Verdict::Healthy if sandbox.executions.is_empty() => (State::Ready, String::new()),
        Verdict::Healthy => (State::Running, String::new()),
    };
    Status { state, cause: None, message, verified_at: Some(live.health.verified_at) }
}

fn unverified(state: State, cause: Option<Cause>, message: String) -> Status {
    Status { state, cause, message, verified_at: None }
}

fn cause_of(life: &Life) -> Option<Cause> {
    match life {
        Life::Wanted => None,
        Life::Ending { cause, .. } | Life::Ended { cause, .. } => Some(*cause),
    }
}

/// The final state that belongs to a cause.
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
        | Cause::ProviderError
        | Cause::KeeperKilled => State::Failed,
    }
}
