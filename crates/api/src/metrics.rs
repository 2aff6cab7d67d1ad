//! What all sandboxes come to, in figures. What is not known is null, never 0.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Of all servers on the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Metrics {
    #[schema(format = DateTime)]
    pub at: String,
    /// How far back the rates, averages, latencies and figures by agent go.
    pub window_seconds: u64,
    pub overview: MetricsOverview,
    /// What has ended in the window, by the type of agent; `none` is nobody's agent, `other` one that is not known here.
    pub by_agent_type: BTreeMap<String, AgentTypeMetrics>,
    pub utilisation: UtilisationMetrics,
    pub health: HealthMetrics,
    /// None: no cleanup has run in the window.
    pub cleanup: Option<CleanupMetrics>,
    pub latencies: Latencies,
    pub rates: RateMetrics,
    /// Of what is not proven gone.
    pub ages: AgeMetrics,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MetricsOverview {
    pub active: u64,
    /// Ever created.
    pub total: u64,
    /// Ended since figures are kept: with all work done, and because something failed.
    pub completed: u64,
    pub failed: u64,
    pub average_lifetime_seconds: Option<f64>,
    pub failure_rate: Option<f64>,
    pub timeout_rate: Option<f64>,
}

/// Averages of one execution, and of one sandbox where it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentTypeMetrics {
    pub executions: u64,
    pub success_rate: Option<f64>,
    pub failure_rate: Option<f64>,
    pub average_execution_seconds: Option<f64>,
    pub average_cpu_seconds: Option<f64>,
    pub average_memory_peak_bytes: Option<f64>,
}

/// Of sandboxes that ended in the window and were measured, and what all that are there may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UtilisationMetrics {
    pub cpu_seconds_total: Option<f64>,
    pub cpu_seconds_average: Option<f64>,
    pub memory_peak_bytes_total: Option<u64>,
    pub memory_peak_bytes_average: Option<f64>,
    pub memory_peak_bytes_max: Option<u64>,
    /// There is no network to make any by.
    pub network_requests: Option<u64>,
    /// Shares of what may be promised that is, between 0 and 1. None: there is no limit.
    pub sandboxes_share: Option<f64>,
    pub memory_share: Option<f64>,
    pub disk_share: Option<f64>,
    pub processes_share: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HealthMetrics {
    /// By the figures of the window: `critical` if more than 25 % fail or something is stuck, `degraded` if more than
    /// 10 % fail or more than 3 are orphaned.
    pub indicator: Indicator,
    pub active: u64,
    /// Past a deadline of their own, or in quarantine.
    pub stuck: u64,
    /// Found without a lease, and not proven gone yet.
    pub orphaned: u64,
    pub failure_rate: Option<f64>,
}

/// The later in this list, the worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Indicator {
    Healthy,
    /// Nobody could look at all that matters.
    Unknown,
    /// Somebody should see to it.
    Degraded,
    /// Somebody has to see to it now.
    Critical,
}

/// Of the runs in the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CleanupMetrics {
    pub runs: u64,
    pub success_rate: f64,
    pub total_scanned: u64,
    /// Bodies that no lease spoke of, whoever found them, and sandboxes that were not ready in their time.
    pub orphaned_detected: u64,
    pub orphaned_terminated: u64,
    /// Unhealthy, past a deadline or silent.
    pub stuck_terminated: u64,
    /// Ended although nothing was wrong with them: room was needed, or it was an emergency.
    pub evicted: u64,
    /// Records that were past retention, whether a run removed them or the server by itself.
    pub old_deleted: u64,
    pub failed_attempts: u64,
    pub average_seconds: Option<f64>,
    #[schema(format = DateTime)]
    pub last_run_at: Option<String>,
}

/// None: there was none in the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Latencies {
    /// From the wish to ready.
    pub create: Option<Percentiles>,
    /// From the wish to a process.
    pub exec: Option<Percentiles>,
    /// From the decision to the proof.
    pub stop: Option<Percentiles>,
    /// From the wish that an execution ends to the proof that it did.
    pub cancel: Option<Percentiles>,
    pub probe: Option<Percentiles>,
    pub cleanup: Option<Percentiles>,
    /// The same for each layer that has run.
    pub cleanup_by_layer: BTreeMap<String, Percentiles>,
    /// From the process to its end.
    pub execution: Option<Percentiles>,
}

/// In seconds, read from buckets: within a bucket, evenly spread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Percentiles {
    pub count: u64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

/// Between 0 and 1. None: there was nothing that could have gone wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RateMetrics {
    /// Of executions, and of starts that came to none.
    pub failure: Option<f64>,
    pub timeout: Option<f64>,
    pub inactivity: Option<f64>,
    /// Of attempts to stop a body.
    pub stop_success: Option<f64>,
    /// Of executions and sandboxes whose time ran out: those that were proven gone.
    pub timeout_cleanup_success: Option<f64>,
    pub health_check_failure: Option<f64>,
}

/// None is in two of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgeMetrics {
    pub under_1_minute: u64,
    pub under_5_minutes: u64,
    pub under_10_minutes: u64,
    pub under_30_minutes: u64,
    pub under_60_minutes: u64,
    pub older: u64,
}

/// One figure over time, the oldest first: minutes of the last day, quarters of hours before that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MetricsHistory {
    pub metric: String,
    #[schema(format = DateTime)]
    pub from: String,
    #[schema(format = DateTime)]
    pub to: String,
    pub points: Vec<MetricsPoint>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MetricsPoint {
    /// When the step begins.
    #[schema(format = DateTime)]
    pub at: String,
    pub step_seconds: u64,
    pub value: Option<f64>,
}
