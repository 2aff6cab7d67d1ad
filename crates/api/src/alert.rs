//! Alerts: their state, history, notifications and deliveries.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertSeverity {
    Info,
    Warning,
    Critical,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    Inactive,
    /// The condition holds, but not yet for `sustained_s`.
    Pending,
    Firing,
    /// It fired recently.
    Resolved,
    /// It does not fire, and its input value is not known.
    Unknown,
}

/// The current state of one alert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Alert {
    pub name: String,
    pub title: String,
    pub meaning: String,
    pub severity: AlertSeverity,
    pub state: AlertState,
    /// The value compared with the threshold. Null: not known, or too few samples.
    pub value: Option<f64>,
    /// The alert fires above this value.
    pub threshold: f64,
    /// How long the value must stay above the threshold.
    pub sustained_s: u64,
    /// A rate counts only after this many samples.
    pub minimum: u64,
    /// At most one notification about this alert is sent per cooldown.
    pub cooldown_s: u64,
    /// The first escalation level: 1 the agent team, 2 infrastructure, 3 platform support.
    pub level: u8,
    /// The service objectives at risk while the alert fires.
    pub affects: Vec<String>,
    /// The link to the runbook section.
    pub runbook: String,
    /// The current firings: one, or one per affected sandbox.
    pub firings: Vec<AlertFiring>,
    pub silence: Option<AlertSilence>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertFiring {
    /// The affected sandbox, where the alert is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<AlertSubject>,
    #[schema(format = DateTime)]
    pub since: String,
    /// The current escalation level.
    pub level: u8,
    /// Whether a notification was sent.
    pub notified: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub acknowledged_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertSubject {
    pub sandbox_id: String,
    /// `timeout` or `stuck`.
    pub event: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertSilence {
    #[schema(format = DateTime)]
    pub until: String,
    pub reason: String,
    pub by: String,
    #[schema(format = DateTime)]
    pub at: String,
}

/// All alerts, and the effect on users.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AlertList {
    pub alerts: Vec<Alert>,
    pub impact: AlertImpact,
    /// When the alerts were last evaluated.
    #[schema(format = DateTime)]
    pub evaluated_at: String,
}

/// The effect on users: recent executions, the shares that failed, timed out or fell silent, and their latencies.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct AlertImpact {
    pub executions: Option<u64>,
    pub failure_rate: Option<f64>,
    pub timeout_rate: Option<f64>,
    pub inactivity_rate: Option<f64>,
    /// From the request for an execution until its process starts.
    #[serde(default)]
    pub exec_start: AlertLatency,
    /// From the start of the process to its end.
    #[serde(default)]
    pub execution: AlertLatency,
}

/// 95th percentiles of a duration. Null: no samples.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct AlertLatency {
    pub lately_p95_seconds: Option<f64>,
    /// Over all samples since metrics are kept.
    pub usual_p95_seconds: Option<f64>,
}

/// A summary of one firing alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActiveAlert {
    pub name: String,
    pub title: String,
    pub severity: AlertSeverity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<AlertSubject>,
    #[schema(format = DateTime)]
    pub since: String,
    pub acknowledged: bool,
    pub silenced: bool,
    pub runbook: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertEvent {
    Fired,
    /// It still fires and is not acknowledged.
    Repeated,
    /// It was not acknowledged in time: the next level is notified.
    Escalated,
    Resolved,
    Acknowledged,
    Silenced,
    Unsilenced,
    /// A test notification was requested.
    Test,
}

/// One entry of the alert history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AlertEntry {
    pub seq: u64,
    #[schema(format = DateTime)]
    pub at: String,
    pub name: String,
    pub severity: AlertSeverity,
    pub event: AlertEvent,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<AlertSubject>,
    pub value: Option<f64>,
    pub level: u8,
    /// Whether a notification was sent.
    pub notified: bool,
    /// Why no notification was sent: `cooldown`, `silence`, or `quiet` for an event without notifications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppressed_by: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AlertHistory {
    /// Newest first.
    pub entries: Vec<AlertEntry>,
    /// The value of `before` for the next page. Null: this is the last page.
    pub next: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertDeliveryState {
    Waiting,
    Delivered,
    GivenUp,
}

/// One notification to one receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertDelivery {
    /// The same in every attempt.
    pub id: String,
    pub seq: u64,
    #[schema(format = DateTime)]
    pub at: String,
    /// The name of the alert.
    pub name: String,
    /// The channel (`webhook`, `slack` or `email`) and the escalation level, as `webhook/1`.
    pub target: String,
    pub state: AlertDeliveryState,
    pub attempts: u32,
    /// When the next attempt is due, or when the delivery ended.
    #[schema(format = DateTime)]
    pub state_at: String,
    /// The result of the last attempt.
    pub last_result: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertDeliveries {
    /// Newest first.
    pub deliveries: Vec<AlertDelivery>,
    /// The value of `before` for the next page. Null: this is the last page.
    pub next: Option<u64>,
}

/// A request to silence an alert: exactly one of `until` and `for`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SilenceAlert {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub until: Option<String>,
    /// In seconds.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2592000)]
    pub for_s: Option<u64>,
    #[schema(min_length = 1, max_length = 500)]
    pub reason: String,
}

/// The results of a test notification, one per configured target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertTest {
    pub results: Vec<AlertTestResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertTestResult {
    /// `log`, or the channel and the escalation level, as `webhook/1`.
    pub target: String,
    pub delivered: bool,
    pub message: String,
}

/// The body of a webhook request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AlertNotice {
    /// The same in every attempt, so that a receiver can drop duplicates.
    pub delivery_id: String,
    pub name: String,
    pub title: String,
    pub severity: AlertSeverity,
    pub event: AlertEvent,
    /// A one-line summary.
    pub message: String,
    pub value: Option<f64>,
    pub threshold: Option<f64>,
    pub level: u8,
    pub affects: Vec<String>,
    pub runbook: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<AlertContext>,
    pub impact: AlertImpact,
    #[schema(format = DateTime)]
    pub at: String,
    #[schema(format = DateTime)]
    pub since: Option<String>,
}

/// The sandbox that an alert is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlertContext {
    pub sandbox_id: String,
    pub event: String,
}
