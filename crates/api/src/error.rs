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
    /// Too many requests with one token.
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
