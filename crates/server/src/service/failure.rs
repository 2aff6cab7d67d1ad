//! Why a request came to nothing, as users are told. One place translates every failure of the crates below.

use std::fmt;

use pinfold_api::{self as api, ErrorCode, ErrorDetail};
use pinfold_engine::{ApplyError, RunError, UsageError, WaitError};
use pinfold_lifecycle::profile::{BadLimit, UnknownProfile};
use pinfold_lifecycle::{Cause, ExecutionId, Refusal, SandboxId, Scarcity};
use pinfold_provider::{AskBodyError, FileError};
use pinfold_store::{CreateError, StoreError, Unreadable};
use serde_json::{Map, Value, json};

use super::words;

/// What the answer says. What only those who run the server should see is in `hidden`, for the log.
#[derive(Debug, Clone)]
pub struct Failure {
    pub detail: ErrorDetail,
    pub hidden: Option<String>,
}

/// When a store or a body that does not answer is worth another try.
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

    /// A fault of ours: what happened is for the log.
    #[must_use]
    pub fn internal(hidden: impl fmt::Display) -> Self {
        let told =
            Self::new(ErrorCode::Internal, "the server failed; its log tells more, under this request's id");
        Self { hidden: Some(hidden.to_string()), ..told }
    }

    #[must_use]
    pub fn bad_input(field: &str, why: impl fmt::Display) -> Self {
        Self::new(ErrorCode::BadInput, format!("{field}: {why}")).with("field", field)
    }

    pub(super) fn unavailable(why: impl fmt::Display) -> Self {
        Self::new(ErrorCode::Unavailable, why.to_string()).retry_after_ms(SOON_MS)
    }

    pub(super) fn unknown_sandbox(id: SandboxId) -> Self {
        Self::new(ErrorCode::UnknownSandbox, format!("there is no sandbox {id}"))
    }

    pub(super) fn unknown_execution(id: ExecutionId) -> Self {
        Self::new(ErrorCode::UnknownExecution, format!("there is no execution {id}"))
    }

    pub(super) fn unreadable(row: &Unreadable) -> Self {
        let told = format!("the record of {} cannot be read; its body is quarantined", row.id);
        Self { hidden: Some(row.why.clone()), ..Self::new(ErrorCode::WrongState, told) }
    }

    pub(super) fn gone(cause: Cause) -> Self {
        let cause = words::cause(cause);
        Self::new(
            ErrorCode::SandboxGone,
            format!("the sandbox has ended or is being ended: {}", spelled(cause)),
        )
        .with("cause", json!(cause))
    }
}

/// As the wire spells it.
pub(super) fn spelled(cause: api::Cause) -> String {
    json!(cause).as_str().unwrap_or_default().to_owned()
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::DiskFull { .. }
            | StoreError::Busy { .. }
            | StoreError::Unclear { .. }
            | StoreError::Closed => Self { hidden: chain(&error), ..Self::unavailable(&error) },
            StoreError::Failed { .. } => Self::internal(chain(&error).unwrap_or_default()),
        }
    }
}

pub(super) fn chain(error: &dyn std::error::Error) -> Option<String> {
    let mut told = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        told = format!("{told}: {cause}");
        source = cause.source();
    }
    Some(told)
}

impl From<WaitError> for Failure {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Missing => Self::new(ErrorCode::UnknownSandbox, "there is no such sandbox"),
            WaitError::Unreadable { why } => {
                let told = "the record of the sandbox cannot be read; its body is quarantined";
                Self { hidden: Some(why), ..Self::new(ErrorCode::WrongState, told) }
            }
            WaitError::Store(error) => error.into(),
        }
    }
}

impl From<ApplyError> for Failure {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Missing => Self::new(ErrorCode::UnknownSandbox, "there is no such sandbox"),
            ApplyError::Refused(refusal) => refusal.into(),
            contended @ ApplyError::Contended => Self::unavailable(contended),
            ApplyError::Store(error) => error.into(),
            ApplyError::Wait(error) => error.into(),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let told = refusal.to_string();
        match refusal {
            Refusal::Ending { cause } | Refusal::Ended { cause } => Self::gone(cause),
            Refusal::Busy { running, places } => Self::new(ErrorCode::SandboxBusy, told)
                .with("running", running)
                .with("places", places)
                .retry_after_ms(SOON_MS),
            Refusal::NoSuchExecution => Self::new(ErrorCode::UnknownExecution, told),
            Refusal::NotQuarantined
            | Refusal::NoBody
            | Refusal::Leased
            | Refusal::Pooled
            | Refusal::NotPooled
            | Refusal::OtherShape
            | Refusal::NotProven
            | Refusal::NearItsEnd
            | Refusal::EndsWithOwner => Self::new(ErrorCode::WrongState, told),
        }
    }
}

impl From<CreateError> for Failure {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Scarce(scarcity) => scarcity.into(),
            reused @ CreateError::KeyReused { .. } => Self::new(ErrorCode::KeyReused, reused.to_string()),
            internal @ (CreateError::Exists { .. } | CreateError::NotWaiting { .. }) => {
                Self::internal(internal)
            }
            CreateError::Store(error) => error.into(),
        }
    }
}

impl From<Scarcity> for Failure {
    fn from(scarcity: Scarcity) -> Self {
        let details = match serde_json::to_value(&scarcity) {
            Ok(Value::Object(details)) => details,
            Ok(_) | Err(_) => Map::new(),
        };
        let mut told = Self::new(ErrorCode::LimitReached, scarcity.to_string()).retry_after_ms(SOON_MS);
        told.detail.details = details;
        told
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
            UsageError::Body(AskBodyError::NoSuchBody) => {
                Self::new(ErrorCode::WrongState, "the sandbox has no body that could be asked now")
            }
            UsageError::Body(error) => Self::unavailable(error),
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
        let told = error.to_string();
        let why = told.split_once(": ").map_or(told.as_str(), |(_, why)| why);
        Self::bad_input(limit_on_the_wire(field), why)
    }
}

/// Limits have names of their own where people type them.
fn limit_on_the_wire(typed: &'static str) -> &'static str {
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
        let told = error.to_string();
        match error {
            FileError::BadPath { why } => Self::bad_input("path", why),
            FileError::NotFound { .. } => Self::new(ErrorCode::UnknownFile, told),
            FileError::NotADirectory { .. }
            | FileError::IsADirectory { .. }
            | FileError::NotAFile { .. }
            | FileError::Exists { .. }
            | FileError::NotEmpty { .. }
            | FileError::InUse { .. } => Self::new(ErrorCode::WrongState, told),
            FileError::Denied { .. } | FileError::Failed { .. } | FileError::Full { .. } => {
                Self::new(ErrorCode::CannotBeDone, told)
            }
            FileError::Busy { .. } => Self::new(ErrorCode::SandboxBusy, told).retry_after_ms(SOON_MS),
            FileError::NoSuchBody => {
                Self::new(ErrorCode::WrongState, "the sandbox has no body whose files could be reached now")
            }
            FileError::NoAnswer { .. } => Self::unavailable(told),
            FileError::NoContent { why } => Self::bad_input("body", why),
        }
    }
}
