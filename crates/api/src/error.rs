//! How a request that came to nothing is answered.

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
    /// For people.
    pub message: String,
    /// What a program may want to know: `field` of a bad input, `cause` of an end, and the like.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
    /// Trying again may help after so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// What went wrong, from a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The field that `details.field` names cannot be used.
    BadInput,
    /// No token, or one that is not valid.
    Unauthorized,
    /// The token is good for less than this.
    Forbidden,
    /// The Host or the Origin of the request is not one this server answers to.
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
    UnknownPlace,
    /// What was asked for cannot be done in the state that things are in.
    WrongState,
    /// All places for executions are taken.
    SandboxBusy,
    /// The sandbox has ended or is being ended; `details.cause` says why.
    SandboxGone,
    /// The sandbox did not become ready.
    StartFailed,
    /// It was asked for in a way that can be understood and cannot be done.
    CannotBeDone,
    /// The idempotency key was used for another request.
    KeyReused,
    /// There is no room for more.
    LimitReached,
    /// The host has too little left; `details` has the figures.
    LowCapacity,
    /// How much the host has left could not be found out.
    CapacityUnmeasurable,
    /// Nothing can be written where sandboxes are kept.
    FilesystemUnusable,
    /// The place in the queue was given up before there was room.
    LeftQueue,
    /// Too many requests with one token, or too many wrong tokens from one address.
    RateLimited,
    TooLarge,
    UnsupportedMediaType,
    /// The answer did not come in time.
    TimedOut,
    /// The store or a sandbox cannot be reached for now.
    Unavailable,
    /// A fault of the server.
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
        Self::UnknownPlace,
        Self::WrongState,
        Self::SandboxBusy,
        Self::SandboxGone,
        Self::StartFailed,
        Self::CannotBeDone,
        Self::KeyReused,
        Self::LimitReached,
        Self::LowCapacity,
        Self::CapacityUnmeasurable,
        Self::FilesystemUnusable,
        Self::LeftQueue,
        Self::RateLimited,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::TimedOut,
        Self::Unavailable,
        Self::Internal,
    ];

    /// For people who read about it.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::BadInput => "the field that `details.field` names cannot be used",
            Self::Unauthorized => "no token, or one that is not valid",
            Self::Forbidden => "the token is good for less than this",
            Self::ForeignOrigin => "the Host or the Origin is not one this server answers to",
            Self::UnknownRoute => "there is nothing at this path",
            Self::MethodNotAllowed => "this cannot be asked at this path",
            Self::UnknownSandbox => "there is no such sandbox",
            Self::UnknownExecution => "there is no such execution",
            Self::UnknownToken => "there is no such token",
            Self::UnknownFile => "there is no such file",
            Self::UnknownArtifact => "there is no such artifact",
            Self::UnknownImage => "there is no such image",
            Self::UnknownAlert => "there is no such alert",
            Self::UnknownPlace => "there is no such place in the queue",
            Self::WrongState => "it cannot be done in the state that things are in",
            Self::SandboxBusy => "all places for executions are taken",
            Self::SandboxGone => "the sandbox has ended or is being ended; `details.cause` says why",
            Self::StartFailed => "the sandbox did not become ready",
            Self::CannotBeDone => "it can be understood and cannot be done",
            Self::KeyReused => "the idempotency key was used for another request",
            Self::LimitReached => "there is no room for more",
            Self::LowCapacity => "the host has too little left; `details` has the figures",
            Self::CapacityUnmeasurable => "how much the host has left could not be found out",
            Self::FilesystemUnusable => "nothing can be written where sandboxes are kept",
            Self::LeftQueue => "the place in the queue was given up before there was room",
            Self::RateLimited => {
                "too many requests with one token, or too many wrong tokens from one address"
            }
            Self::TooLarge => "the body is larger than the server takes",
            Self::UnsupportedMediaType => "the body is of another kind",
            Self::TimedOut => "the answer did not come in time",
            Self::Unavailable => "the store or a sandbox cannot be reached for now",
            Self::Internal => "a fault of the server",
        }
    }
}
