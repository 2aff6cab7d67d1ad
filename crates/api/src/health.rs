//! Health of the server, its store and its host, and probe results of one sandbox.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ActiveAlert, Indicator, Stats};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Whether an operator needs to act: the worst of the firing alerts, the parts below and unknown values. Never
    /// `healthy` while a warning or critical alert fires, acknowledged and silenced ones included.
    pub indicator: Indicator,
    /// Whether this process works, regardless of alerts: the worst of its parts.
    pub status: HealthState,
    pub store: HealthPart,
    pub provider: HealthPart,
    /// Whether scheduled cleanup runs, and whether the last runs succeeded.
    pub cleanup: HealthPart,
    /// Null: the store could not be read.
    pub sandboxes: Option<Stats>,
    /// Sandboxes past one of their deadlines or not proven gone, as of the last alert evaluation. Null: not known.
    pub stuck: Option<u64>,
    /// Recently found instances without a record. Null: not known.
    pub orphaned: Option<u64>,
    /// The share of failed recent executions, between 0 and 1. Null: not known, or none ended.
    pub failure_rate: Option<f64>,
    /// Nodes on this store. Null: the store could not be read.
    pub nodes: Option<u64>,
    /// Free memory of the host. Null: not known.
    pub memory_mb_left: Option<u64>,
    pub disk_mb_left: Option<u64>,
    /// Firing alerts, most severe first. Null: the store could not be read.
    pub alerts: Option<Vec<ActiveAlert>>,
    #[schema(format = DateTime)]
    pub at: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthPart {
    pub status: HealthState,
    /// What is wrong, or why the state is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Ordered from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    Ok,
    /// Could not be determined.
    Unknown,
    Failing,
}

/// The result of probing exec, files and control of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProbeResult {
    pub sandbox_id: String,
    pub generation: u64,
    pub result: ProbeState,
    /// What failed, or why the probe could not run.
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
    /// The probe could not run.
    Unknown,
}
