//! Whether the server, its store and its host work, and whether one sandbox does.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ActiveAlert, Indicator, Stats};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Whether somebody has to see to something: the worst of what fires, of the parts below and of what is not known.
    /// It is never `healthy` while an alert fires that is a warning or critical, acknowledged and silenced ones included.
    pub indicator: Indicator,
    /// What this process can do, whatever fires: the worst of its parts.
    pub status: HealthState,
    pub store: HealthPart,
    pub provider: HealthPart,
    /// Whether cleanup has its turns, and whether the last ones could be done.
    pub cleanup: HealthPart,
    /// None: the store could not be read.
    pub sandboxes: Option<Stats>,
    /// Past a deadline of their own, or not proven gone, as alerts saw it last. None: it is not known.
    pub stuck: Option<u64>,
    /// Found lately without a record that spoke of them. None: it is not known.
    pub orphaned: Option<u64>,
    /// Of the executions that ended lately, between 0 and 1. None: it is not known, or none ended.
    pub failure_rate: Option<f64>,
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
