//! The body of an error response.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    pub error: ErrorDetail,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    pub code: ErrorCode,
    /// For people, not for programs.
    pub message: String,
    /// For programs: `field` of a bad input, `cause` of an end, and so on.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
    /// When a retry can help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// The kind of error. The list is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The field in `details.field` is invalid.
    BadInput,
    /// The token is missing or invalid.
    Unauthorized,
    /// The token's role is too low.
    Forbidden,
    /// The Host or Origin header is not accepted by this server.
    ForeignOrigin,
    UnknownRoute,
    MethodNotAllowed,
    UnknownSandbox,
    UnknownExecution,
    UnknownToken,
    UnknownFile,
    UnknownArtifact,
    UnknownImage,
    UnknownAlert,
    UnknownQueueEntry,
    /// Not possible in the current state.
    WrongState,
    /// The sandbox runs as many executions as it may.
    SandboxBusy,
    /// The sandbox has ended or is being stopped; `details.cause` says why.
    SandboxGone,
    /// The sandbox did not become ready.
    StartFailed,
    /// The request is valid but cannot be carried out.
    CannotBeDone,
    /// The idempotency key was used for another request.
    KeyReused,
    /// A sandbox that is not proven gone has this name; `details.sandbox_id` is its id.
    NameTaken,
    /// An admission limit is reached.
    LimitReached,
    /// The sum of memory, disk or process limits would exceed the admission limit in `details`.
    ResourceLimitExceeded,
    /// The host is short of a resource; `details` has the figures.
    LowCapacity,
    /// The free capacity of the host could not be measured.
    CapacityUnmeasurable,
    /// The data directory is not writable.
    FilesystemUnusable,
    /// The queue entry was cancelled before there was room.
    LeftQueue,
    /// Too many requests with one token, or too many wrong tokens from one address.
    RateLimited,
    TooLarge,
    UnsupportedMediaType,
    /// The request body stalled.
    BodyStalled,
    /// The server did not answer in time.
    TimedOut,
    /// The store or the sandbox cannot be reached; a retry can help.
    Unavailable,
    /// The store cannot be written; the message says why.
    StoreUnwritable,
    /// An internal server error.
    Internal,
}

impl ErrorCode {
    pub const ALL: &[Self] = &[
        Self::BadInput,
        Self::Unauthorized,
        Self::Forbidden,
        Self::ForeignOrigin,
        Self::UnknownRoute,
        Self::MethodNotAllowed,
        Self::UnknownSandbox,
        Self::UnknownExecution,
        Self::UnknownToken,
        Self::UnknownFile,
        Self::UnknownArtifact,
        Self::UnknownImage,
        Self::UnknownAlert,
        Self::UnknownQueueEntry,
        Self::WrongState,
        Self::SandboxBusy,
        Self::SandboxGone,
        Self::StartFailed,
        Self::CannotBeDone,
        Self::KeyReused,
        Self::NameTaken,
        Self::LimitReached,
        Self::ResourceLimitExceeded,
        Self::LowCapacity,
        Self::CapacityUnmeasurable,
        Self::FilesystemUnusable,
        Self::LeftQueue,
        Self::RateLimited,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::BodyStalled,
        Self::TimedOut,
        Self::Unavailable,
        Self::StoreUnwritable,
        Self::Internal,
    ];

    /// The meaning, as `docs/api.md` prints it.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::BadInput => "the field in `details.field` is invalid",
            Self::Unauthorized => "the token is missing or invalid",
            Self::Forbidden => "the token's role is too low",
            Self::ForeignOrigin => "the Host or Origin header is not accepted by this server",
            Self::UnknownRoute => "unknown path",
            Self::MethodNotAllowed => "the path does not support this method",
            Self::UnknownSandbox => "unknown sandbox",
            Self::UnknownExecution => "unknown execution",
            Self::UnknownToken => "unknown token",
            Self::UnknownFile => "unknown file",
            Self::UnknownArtifact => "unknown artifact",
            Self::UnknownImage => "unknown image",
            Self::UnknownAlert => "unknown alert",
            Self::UnknownQueueEntry => "unknown queue entry",
            Self::WrongState => "not possible in the current state",
            Self::SandboxBusy => "the sandbox runs as many executions as it may",
            Self::SandboxGone => "the sandbox has ended or is being stopped; `details.cause` says why",
            Self::StartFailed => "the sandbox did not become ready",
            Self::CannotBeDone => "the request is valid but cannot be carried out",
            Self::KeyReused => "the idempotency key was used for another request",
            Self::NameTaken => {
                "a sandbox that is not proven gone has this name; `details.sandbox_id` is its id"
            }
            Self::LimitReached => "an admission limit is reached",
            Self::ResourceLimitExceeded => {
                "the sum of memory, disk or process limits would exceed the admission limit in `details`"
            }
            Self::LowCapacity => "the host is short of a resource; `details` has the figures",
            Self::CapacityUnmeasurable => "the free capacity of the host could not be measured",
            Self::FilesystemUnusable => "the data directory is not writable",
            Self::LeftQueue => "the queue entry was cancelled before there was room",
            Self::RateLimited => {
                "too many requests with one token, or too many wrong tokens from one address"
            }
            Self::TooLarge => "the request body is too large",
            Self::UnsupportedMediaType => "the request body has an unsupported content type",
            Self::BodyStalled => "the request body stalled",
            Self::TimedOut => "the server did not answer in time",
            Self::Unavailable => "the store or the sandbox cannot be reached; a retry can help",
            Self::StoreUnwritable => "the store cannot be written; the message says why",
            Self::Internal => "an internal server error",
        }
    }
}
