//! Failures as the API reports them. This file converts every error of the lower crates.

use std::fmt;

use pinfold_api::{self as api, ErrorCode, ErrorDetail};
use pinfold_engine::{ApplyError, RunError, UsageError, WaitError};
use pinfold_lifecycle::profile::{BadLimit, UnknownProfile};
use pinfold_lifecycle::{AdmissionRefusal, Cause, ExecutionId, Refusal, SandboxId};
use pinfold_provider::{FileError, InstanceError};
use pinfold_store::{CreateError, StoreError, UnreadableRow};
use serde_json::{Map, Value, json};

use super::convert;

/// An error response. `hidden` has details that only the server's log may show.
#[derive(Debug, Clone)]
pub struct Failure {
    pub detail: ErrorDetail,
    pub hidden: Option<String>,
}

/// Retry hint for a store or an instance that does not answer.
const SOON_MS: u64 = 1_000;

impl Failure {
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let detail = ErrorDetail { code, message: message.into(), details: Map::new(), retry_after_ms: None };
        Self { detail, hidden: None }
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.detail.details.insert(name.to_owned(), value.into());
        self
    }

    #[must_use]
    pub fn retry_after_ms(mut self, ms: u64) -> Self {
        self.detail.retry_after_ms = Some(ms);
        self
    }

    /// An internal error. The details go to the log only.
    #[must_use]
    pub fn internal(hidden: impl fmt::Display) -> Self {
        let failure = Self::new(
            ErrorCode::Internal,
            "internal error; the server's log has details under this request id",
        );
        Self { hidden: Some(hidden.to_string()), ..failure }
    }

    #[must_use]
    pub fn bad_input(field: &str, why: impl fmt::Display) -> Self {
        Self::new(ErrorCode::BadInput, format!("{field}: {why}")).with("field", field)
    }

    pub(super) fn unavailable(why: impl fmt::Display) -> Self {
        Self::new(ErrorCode::Unavailable, why.to_string()).retry_after_ms(SOON_MS)
    }

    pub(super) fn unknown_sandbox(id: SandboxId) -> Self {
        Self::new(ErrorCode::UnknownSandbox, format!("unknown sandbox {id}"))
    }

    pub(super) fn unknown_execution(id: ExecutionId) -> Self {
        Self::new(ErrorCode::UnknownExecution, format!("unknown execution {id}"))
    }

    pub(super) fn unreadable(row: &UnreadableRow) -> Self {
        let message = format!("the record of {} cannot be read; its instance is quarantined", row.id);
        Self { hidden: Some(row.why.clone()), ..Self::new(ErrorCode::WrongState, message) }
    }

    pub(super) fn gone(cause: Cause) -> Self {
        let cause = convert::cause(cause);
        Self::new(
            ErrorCode::SandboxGone,
            format!("the sandbox has ended or is being stopped: {}", cause_name(cause)),
        )
        .with("cause", json!(cause))
    }
}

/// The name of a cause as in JSON.
pub(super) fn cause_name(cause: api::Cause) -> String {
    convert::serde_name(&cause)
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::DiskFull { .. }
            | StoreError::Busy { .. }
            | StoreError::OutcomeUnknown { .. }
            | StoreError::Closed => Self { hidden: chain(&error), ..Self::unavailable(&error) },
            StoreError::Unwritable { .. } | StoreError::KeyLost { .. } => {
                Self::new(ErrorCode::StoreUnwritable, error.to_string()).retry_after_ms(SOON_MS)
            }
            StoreError::Failed { .. } => Self::internal(chain(&error).unwrap_or_default()),
        }
    }
}

pub(super) fn chain(error: &dyn std::error::Error) -> Option<String> {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    Some(message)
}

impl From<WaitError> for Failure {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Missing => Self::new(ErrorCode::UnknownSandbox, "unknown sandbox"),
            WaitError::Unreadable { why } => {
                let message = "the record of the sandbox cannot be read; its instance is quarantined";
                Self { hidden: Some(why), ..Self::new(ErrorCode::WrongState, message) }
            }
            WaitError::Store(error) => error.into(),
        }
    }
}

impl From<ApplyError> for Failure {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Missing => Self::new(ErrorCode::UnknownSandbox, "unknown sandbox"),
            ApplyError::Refused(refusal) => refusal.into(),
            contended @ ApplyError::Contended => Self::unavailable(contended),
            ApplyError::Store(error) => error.into(),
            ApplyError::Wait(error) => error.into(),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::Ending { cause } | Refusal::Ended { cause } => Self::gone(cause),
            Refusal::Busy { running, capacity: places } => Self::new(ErrorCode::SandboxBusy, message)
                .with("running", running)
                .with("places", places)
                .retry_after_ms(SOON_MS),
            Refusal::NoSuchExecution => Self::new(ErrorCode::UnknownExecution, message),
            Refusal::NotQuarantined
            | Refusal::NoInstance
            | Refusal::Leased
            | Refusal::Pooled
            | Refusal::NotPooled
            | Refusal::OtherShape
            | Refusal::ProbeStale
            | Refusal::ExpiresTooSoon
            | Refusal::EndsWithOwner => Self::new(ErrorCode::WrongState, message),
        }
    }
}

impl From<CreateError> for Failure {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::AdmissionRefused(scarcity) => scarcity.into(),
            reused @ CreateError::KeyReused { .. } => Self::new(ErrorCode::KeyReused, reused.to_string()),
            CreateError::NameTaken { ref id, .. } => {
                Self::new(ErrorCode::NameTaken, error.to_string()).with("sandbox_id", id.to_string())
            }
            internal @ (CreateError::Exists { .. } | CreateError::NotQueued { .. }) => {
                Self::internal(internal)
            }
            CreateError::Store(error) => error.into(),
        }
    }
}

impl From<AdmissionRefusal> for Failure {
    fn from(scarcity: AdmissionRefusal) -> Self {
        let details = match serde_json::to_value(&scarcity) {
            Ok(Value::Object(details)) => details,
            Ok(_) | Err(_) => Map::new(),
        };
        let code = match scarcity {
            AdmissionRefusal::Memory { .. }
            | AdmissionRefusal::Disk { .. }
            | AdmissionRefusal::Processes { .. } => ErrorCode::ResourceLimitExceeded,
            AdmissionRefusal::Sandboxes { .. }
            | AdmissionRefusal::Token { .. }
            | AdmissionRefusal::Label { .. }
            | AdmissionRefusal::Queue { .. } => ErrorCode::LimitReached,
        };
        let mut failure = Self::new(code, scarcity.to_string()).retry_after_ms(SOON_MS);
        failure.detail.details = details;
        failure
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Create(error) => error.into(),
            RunError::Execute(error) => error.into(),
        }
    }
}

impl From<UsageError> for Failure {
    fn from(error: UsageError) -> Self {
        match error {
            UsageError::Wait(error) => error.into(),
            UsageError::Instance(InstanceError::NoSuchInstance) => {
                Self::new(ErrorCode::WrongState, "the sandbox has no running instance to measure")
            }
            UsageError::Instance(error) => Self::unavailable(error),
        }
    }
}

impl From<UnknownProfile> for Failure {
    fn from(error: UnknownProfile) -> Self {
        let known = error.known.clone();
        Self::bad_input("agent_type", error).with("known", known)
    }
}

impl From<BadLimit> for Failure {
    fn from(error: BadLimit) -> Self {
        let (BadLimit::OutOfRange { field, .. } | BadLimit::LongerThan { field, .. }) = error;
        let message = error.to_string();
        let why = message.split_once(": ").map_or(message.as_str(), |(_, why)| why);
        Self::bad_input(limit_field(field), why)
    }
}

/// The JSON field of a limit, given its command line name.
fn limit_field(typed: &'static str) -> &'static str {
    match typed {
        "memory" => "limits.memory_mb",
        "cpus" => "limits.cpu_millis",
        "cpu-time" => "limits.cpu_time_ms",
        "network-requests" => "limits.network_requests",
        "disk" => "limits.disk_mb",
        "pids" => "limits.processes",
        "output" => "limits.output_mb",
        "operations" => "limits.operations",
        "max-life" => "limits.max_life_ms",
        "timeout" => "limits.timeout_ms",
        "inactivity-timeout" => "limits.inactivity_ms",
        "idle-timeout" => "limits.idle_ms",
        other => other,
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let message = error.to_string();
        match error {
            FileError::BadPath { why } => Self::bad_input("path", why),
            FileError::NotFound { .. } => Self::new(ErrorCode::UnknownFile, message),
            FileError::NotADirectory { .. }
            | FileError::IsADirectory { .. }
            | FileError::NotAFile { .. }
            | FileError::Exists { .. }
            | FileError::NotEmpty { .. }
            | FileError::InUse { .. } => Self::new(ErrorCode::WrongState, message),
            FileError::Denied { .. } | FileError::Failed { .. } | FileError::Full { .. } => {
                Self::new(ErrorCode::CannotBeDone, message)
            }
            FileError::Busy { .. } => Self::new(ErrorCode::SandboxBusy, message).retry_after_ms(SOON_MS),
            FileError::NoSuchInstance => {
                Self::new(ErrorCode::WrongState, "the sandbox has no instance whose files can be reached now")
            }
            FileError::NoAnswer { .. } => Self::unavailable(message),
            FileError::NoContent { why } => Self::bad_input("body", why),
        }
    }
}
