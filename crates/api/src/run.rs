//! A request to run one command in a sandbox of its own.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{CreateSandbox, ExecRequest};

/// The sandbox ends with the command, or when the client disconnects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    #[serde(default, deserialize_with = "crate::object")]
    pub sandbox: CreateSandbox,
    pub exec: ExecRequest,
}
