//! Conversion of lifecycle and store types to API types. Every match is exhaustive, so that a new variant breaks the
//! build.

use pinfold_api as api;
use pinfold_lifecycle::{
    Cause, ExecutionId, ExecutionState, Finding, Lease, Outcome, OutcomeKind, ResourceUsage, SandboxId,
    State, Timestamp,
};
use pinfold_provider::FileKind;
use pinfold_store::Role;
use serde::Serialize;

/// A timestamp as RFC 3339 in UTC.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    api::rfc3339(at.0)
}

/// The name of a unit variant as serde spells it.
pub(crate) fn serde_name(variant: &impl Serialize) -> String {
    serde_json::to_value(variant).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

pub(super) fn sandbox_url(id: SandboxId) -> String {
    format!("/api/sandbox/{id}")
}

pub(super) fn execution_url(id: ExecutionId) -> String {
    format!("/api/executions/{id}")
}

pub(super) fn cause(cause: Cause) -> api::Cause {
    match cause {
        Cause::Completed => api::Cause::Completed,
        Cause::ExitNonzero => api::Cause::ExitNonzero,
        Cause::StoppedByUser => api::Cause::StoppedByUser,
        Cause::TimeLimit => api::Cause::TimeLimit,
        Cause::Inactivity => api::Cause::Inactivity,
        Cause::Idle => api::Cause::Idle,
        Cause::MaxLife => api::Cause::MaxLife,
        Cause::MemoryLimit => api::Cause::MemoryLimit,
        Cause::CpuLimit => api::Cause::CpuLimit,
        Cause::NetworkLimit => api::Cause::NetworkLimit,
        Cause::DiskLimit => api::Cause::DiskLimit,
        Cause::ProcessLimit => api::Cause::ProcessLimit,
        Cause::OutputLimit => api::Cause::OutputLimit,
        Cause::OperationLimit => api::Cause::OperationLimit,
        Cause::StartDeadline => api::Cause::StartDeadline,
        Cause::StartFailed => api::Cause::StartFailed,
        Cause::ProbeFailed => api::Cause::ProbeFailed,
        Cause::Cancelled => api::Cause::Cancelled,
        Cause::CallerGone => api::Cause::CallerGone,
        Cause::Shutdown => api::Cause::Shutdown,
        Cause::Orphan => api::Cause::Orphan,
        Cause::Lost => api::Cause::Lost,
        Cause::HostRestarted => api::Cause::HostRestarted,
        Cause::EvictedEmergency => api::Cause::EvictedEmergency,
        Cause::ProviderError => api::Cause::ProviderError,
        Cause::KeeperKilled => api::Cause::KeeperKilled,
    }
}

pub(super) fn state(state: State) -> api::State {
    match state {
        State::Provisioning => api::State::Provisioning,
        State::Ready => api::State::Ready,
        State::Running => api::State::Running,
        State::Unhealthy => api::State::Unhealthy,
        State::Unknown => api::State::Unknown,
        State::Terminating => api::State::Terminating,
        State::Quarantined => api::State::Quarantined,
        State::Completed => api::State::Completed,
        State::Failed => api::State::Failed,
        State::Terminated => api::State::Terminated,
    }
}

pub(super) fn lease_state(lease: &Lease) -> api::LeaseState {
    match lease {
        Lease::Free { .. } => api::LeaseState::Free,
        Lease::Starting { .. } | Lease::LaunchWaiting { .. } => api::LeaseState::Starting,
        Lease::Live(_) => api::LeaseState::Live,
        Lease::Stopping { .. } | Lease::StopWaiting { .. } => api::LeaseState::Stopping,
        Lease::Quarantined { .. } => api::LeaseState::Quarantined,
    }
}

/// An execution counts as running until its end is proven.
pub(super) fn execution_state(state: &ExecutionState) -> api::ExecutionState {
    match state {
        // Between two attempts it waits for its next instance.
        ExecutionState::Queued { .. } | ExecutionState::Interrupted => api::ExecutionState::Queued,
        ExecutionState::Preparing { .. }
        | ExecutionState::Starting { .. }
        | ExecutionState::Running { .. }
        | ExecutionState::Ending { .. } => api::ExecutionState::Running,
        ExecutionState::Collecting { .. } => api::ExecutionState::Collecting,
        ExecutionState::Ended { outcome, .. } => outcome_state(outcome),
    }
}

pub(super) fn outcome_state(outcome: &Outcome) -> api::ExecutionState {
    match outcome.kind {
        OutcomeKind::Exited => api::ExecutionState::Exited,
        OutcomeKind::Failed => api::ExecutionState::Failed,
        OutcomeKind::Cancelled => api::ExecutionState::Cancelled,
        OutcomeKind::TimedOut => api::ExecutionState::TimedOut,
        OutcomeKind::Lost => api::ExecutionState::Lost,
    }
}

pub(super) fn finding(finding: Finding) -> api::Finding {
    match finding {
        Finding::Absent => api::Finding::Absent,
        Finding::Present => api::Finding::Present,
        Finding::Unknown => api::Finding::Unknown,
    }
}

pub(super) fn used(used: ResourceUsage) -> api::ResourceUsage {
    let ResourceUsage { cpu_ms, memory_peak_bytes, io_read_bytes, io_written_bytes } = used;
    api::ResourceUsage { cpu_ms, memory_peak_bytes, io_read_bytes, io_written_bytes }
}

pub(super) fn role(role: Role) -> api::Role {
    match role {
        Role::Viewer => api::Role::Viewer,
        Role::Operator => api::Role::Operator,
        Role::Admin => api::Role::Admin,
    }
}

/// The role as configuration, headers and messages spell it.
#[must_use]
pub fn role_name(role: Role) -> &'static str {
    match role {
        Role::Viewer => "viewer",
        Role::Operator => "operator",
        Role::Admin => "admin",
    }
}

pub(super) fn role_from_api(role: api::Role) -> Role {
    match role {
        api::Role::Viewer => Role::Viewer,
        api::Role::Operator => Role::Operator,
        api::Role::Admin => Role::Admin,
    }
}

pub(super) fn file_kind(kind: FileKind) -> api::FileKind {
    match kind {
        FileKind::File => api::FileKind::File,
        FileKind::Directory => api::FileKind::Directory,
        FileKind::Link => api::FileKind::Link,
        FileKind::Pipe => api::FileKind::Pipe,
        FileKind::Socket => api::FileKind::Socket,
        FileKind::Device => api::FileKind::Device,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_written_in_utc_with_milliseconds() {
        assert_eq!(rfc3339(Timestamp(1_763_253_584_007)), "2025-11-16T00:39:44.007Z");
    }
}
