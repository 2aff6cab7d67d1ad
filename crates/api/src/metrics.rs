//! Metrics over all sandboxes. Unknown values are null, never 0.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Metrics of all servers on the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Metrics {
    #[schema(format = DateTime)]
    pub at: String,
    /// The time window of the rates, averages, latencies and per-agent metrics.
    pub window_seconds: u64,
    pub overview: MetricsOverview,
    /// Executions that ended in the window, by agent type; `none` is without an agent type, `other` is a type this
    /// server does not know.
    pub by_agent_type: BTreeMap<String, AgentTypeMetrics>,
    pub utilisation: UtilisationMetrics,
    pub health: HealthMetrics,
    /// Null: no cleanup ran in the window.
    pub cleanup: Option<CleanupMetrics>,
    pub latencies: Latencies,
    pub rates: RateMetrics,
    /// Ages of sandboxes that are not proven gone.
    pub ages: AgeMetrics,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MetricsOverview {
    pub active: u64,
    /// Sandboxes ever created.
    pub total: u64,
    /// Sandboxes that completed, and that failed, since metrics are kept.
    pub completed: u64,
    pub failed: u64,
    pub average_lifetime_seconds: Option<f64>,
    pub failure_rate: Option<f64>,
    pub timeout_rate: Option<f64>,
}

/// Averages per execution, and per sandbox where that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentTypeMetrics {
    pub executions: u64,
    pub success_rate: Option<f64>,
    pub failure_rate: Option<f64>,
    pub average_execution_seconds: Option<f64>,
    pub average_cpu_seconds: Option<f64>,
    pub average_memory_peak_bytes: Option<f64>,
}

/// Usage of sandboxes that ended in the window, and the share of the limits reserved by existing ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UtilisationMetrics {
    pub cpu_seconds_total: Option<f64>,
    pub cpu_seconds_average: Option<f64>,
    pub memory_peak_bytes_total: Option<u64>,
    pub memory_peak_bytes_average: Option<f64>,
    pub memory_peak_bytes_max: Option<u64>,
    /// Always 0: sandboxes have no network.
    pub network_requests: Option<u64>,
    /// Reserved shares of the admission limits, between 0 and 1. Null: no limit.
    pub sandboxes_share: Option<f64>,
    pub memory_share: Option<f64>,
    pub disk_share: Option<f64>,
    pub processes_share: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HealthMetrics {
    /// From the metrics of the window: `critical` if more than 25 % fail or a sandbox is stuck, `degraded` if more
    /// than 10 % fail or more than 3 sandboxes are orphaned.
    pub indicator: Indicator,
    pub active: u64,
    /// Sandboxes past one of their deadlines, or in quarantine.
    pub stuck: u64,
    /// Instances found without a lease and not yet proven gone.
    pub orphaned: u64,
    pub failure_rate: Option<f64>,
}

/// Ordered from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Indicator {
    Healthy,
    /// A relevant value could not be determined.
    Unknown,
    /// An operator should act.
    Degraded,
    /// An operator must act now.
    Critical,
}

/// Cleanup runs in the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CleanupMetrics {
    pub runs: u64,
    pub success_rate: f64,
    pub total_scanned: u64,
    /// Instances found without a lease, by any process, and sandboxes that did not become ready in time.
    pub orphaned_detected: u64,
    pub orphaned_terminated: u64,
    /// Sandboxes that were unhealthy, overdue or silent.
    pub stuck_terminated: u64,
    /// Healthy sandboxes stopped to free resources or in an emergency.
    pub evicted: u64,
    /// Expired records, removed by a cleanup run or by the retention loop.
    pub old_deleted: u64,
    pub failed_attempts: u64,
    pub average_seconds: Option<f64>,
    #[schema(format = DateTime)]
    pub last_run_at: Option<String>,
}

/// Null: no samples in the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Latencies {
    /// From the request to ready.
    pub create: Option<Percentiles>,
    /// From the request to a running process.
    pub exec: Option<Percentiles>,
    /// From the decision to stop to the proof that it is gone.
    pub stop: Option<Percentiles>,
    /// From the cancel request to the proof that the execution ended.
    pub cancel: Option<Percentiles>,
    pub probe: Option<Percentiles>,
    pub cleanup: Option<Percentiles>,
    /// Cleanup latencies by layer.
    pub cleanup_by_layer: BTreeMap<String, Percentiles>,
    /// From the start of the process to its end.
    pub execution: Option<Percentiles>,
}

/// In seconds, interpolated linearly within histogram buckets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Percentiles {
    pub count: u64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

/// Between 0 and 1. Null: no samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RateMetrics {
    /// Executions that the platform failed (not started, or lost with their instance) and failed starts.
    pub failure: Option<f64>,
    /// Executions whose command exited with another code than 0.
    pub nonzero_exit: Option<f64>,
    /// Executions that exceeded a resource limit.
    pub limit: Option<f64>,
    pub timeout: Option<f64>,
    pub inactivity: Option<f64>,
    /// Successful attempts to stop an instance.
    pub stop_success: Option<f64>,
    /// Timed-out executions and sandboxes that were proven gone.
    pub timeout_cleanup_success: Option<f64>,
    pub health_check_failure: Option<f64>,
}

/// Numbers of sandboxes by age. Each is counted once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgeMetrics {
    pub under_1_minute: u64,
    pub under_5_minutes: u64,
    pub under_10_minutes: u64,
    pub under_30_minutes: u64,
    pub under_60_minutes: u64,
    pub older: u64,
}

/// One metric over time, oldest first: per minute for the last day, per quarter of an hour before that.
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
    /// The start of the step.
    #[schema(format = DateTime)]
    pub at: String,
    pub step_seconds: u64,
    pub value: Option<f64>,
}
