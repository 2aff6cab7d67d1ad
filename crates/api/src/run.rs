//! One command in a sandbox of its own.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{CreateSandbox, ExecRequest};

/// The sandbox ends with the command, and with the connection on which it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    #[serde(default, deserialize_with = "crate::object")]
    pub sandbox: CreateSandbox,
    pub exec: ExecRequest,
}
