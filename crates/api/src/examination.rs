//! One sandbox, looked at closely.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Sandbox;

/// What is recorded, what was tried, and what to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Examination {
    #[serde(flatten)]
    pub sandbox: Sandbox,
    /// The nearest first is not promised.
    pub due: Vec<Due>,
    /// Nothing could be tried of what has ended.
    pub probes: Vec<Probe>,
    pub verdict: String,
    /// Nothing: all is well.
    pub advice: Vec<String>,
}

/// What happens by itself, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Due {
    pub what: String,
    #[schema(format = DateTime)]
    pub at: String,
    pub left_ms: u64,
}

/// One thing that was tried, with its raw answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Probe {
    pub probe: String,
    pub passed: bool,
    pub answer: String,
    pub took_ms: f64,
}
