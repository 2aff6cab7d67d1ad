//! Whether the server, its store and its host work, and whether one sandbox does.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ActiveAlert, Stats};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// The worst of its parts.
    pub status: HealthState,
    pub store: HealthPart,
    pub provider: HealthPart,
    /// Whether cleanup has its turns, and whether the last ones could be done.
    pub cleanup: HealthPart,
    /// None: the store could not be read.
    pub sandboxes: Option<Stats>,
    /// Processes that run sandboxes on this store. None: the store could not be read.
    pub nodes: Option<u64>,
    /// What the host has left. None: it is not known.
    pub memory_mb_left: Option<u64>,
    pub disk_mb_left: Option<u64>,
    /// What fires, the worst first. None: the store could not be read.
    pub alerts: Option<Vec<ActiveAlert>>,
    #[schema(format = DateTime)]
    pub at: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthPart {
    pub status: HealthState,
    /// What is wrong, or why nobody can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The later in this list, the worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    Ok,
    /// Nobody could look.
    Unknown,
    Failing,
}

/// What trying commands, files and control of one sandbox came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProbeResult {
    pub sandbox_id: String,
    pub generation: u64,
    pub result: ProbeState,
    /// What failed, or why it could not be tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[schema(format = DateTime)]
    pub at: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeState {
    Passed,
    Failed,
    /// It could not be tried.
    Unknown,
}
