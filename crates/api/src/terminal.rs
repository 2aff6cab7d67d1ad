//! What is said over a terminal's connection beside the bytes themselves.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// From whoever sits at the terminal, as a text frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalSaying {
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

/// From the server, as a text frame after the bytes that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TerminalRead {
    /// Of the last output: what to give as `after` to come back.
    pub seq: u64,
}
