//! Control messages of a terminal connection, as text frames beside the binary data.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A control message from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalControl {
    pub resize: TerminalSize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    #[schema(minimum = 1)]
    pub columns: u16,
    #[schema(minimum = 1)]
    pub rows: u16,
}

/// Sent by the server after each chunk of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TerminalPosition {
    /// The `seq` of the output so far. Pass it as `after` to reconnect.
    pub seq: u64,
}
