//! Alerts: what somebody may be called for, what became of it, and who was told.

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
    /// The condition holds, and has not for long enough.
    Pending,
    Firing,
    /// It fired not long ago.
    Resolved,
    /// It does not fire, and what would decide that is not known.
    Unknown,
}

/// One alert as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Alert {
    pub name: String,
    pub title: String,
    pub meaning: String,
    pub severity: AlertSeverity,
    pub state: AlertState,
    /// The figure it goes by. None: it is not known, or too little was counted.
    pub value: Option<f64>,
    /// It fires above this.
    pub threshold: f64,
    /// For so long.
    pub sustained_s: u64,
    /// A rate means nothing before so many were counted.
    pub minimum: u64,
    /// The same alert is told once in this time.
    pub cooldown_s: u64,
    /// Who is called first: 1 the agent team, 2 infrastructure, 3 platform support.
    pub level: u8,
    /// What was promised to users and is at risk while it fires.
    pub affects: Vec<String>,
    /// Where the runbook says what to do.
    pub runbook: String,
    /// What fires: once, or for each sandbox that it is about.
    pub firings: Vec<AlertFiring>,
    pub silence: Option<AlertSilence>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertFiring {
    /// What it is about, if about one sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<AlertSubject>,
    #[schema(format = DateTime)]
    pub since: String,
    /// How far it has been escalated.
    pub level: u8,
    /// Whether anybody was called about it.
    pub told: bool,
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

/// All alerts, and what users notice of whatever is wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AlertList {
    pub alerts: Vec<Alert>,
    pub impact: AlertImpact,
    /// When the figures were last looked at.
    #[schema(format = DateTime)]
    pub evaluated_at: String,
}

/// What users notice: how many executions ended lately, the shares that came to grief, took too long or fell silent, and
/// how long the rest of them take.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct AlertImpact {
    pub executions: Option<u64>,
    pub failure_rate: Option<f64>,
    pub timeout_rate: Option<f64>,
    pub inactivity_rate: Option<f64>,
    /// From the wish for an execution until it runs.
    #[serde(default)]
    pub exec_start: AlertPace,
    /// From there to its end.
    #[serde(default)]
    pub execution: AlertPace,
}

/// What 95 of 100 take at the most. None: nothing was counted.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct AlertPace {
    pub lately_p95_seconds: Option<f64>,
    /// Of all that were ever counted.
    pub usual_p95_seconds: Option<f64>,
}

/// One that fires, in short.
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
    /// It still fires, and nobody has acknowledged it.
    Repeated,
    /// Nobody has acknowledged it, so others are called.
    Escalated,
    Resolved,
    Acknowledged,
    Silenced,
    Unsilenced,
    /// Somebody wants to know whether messages arrive.
    Test,
}

/// One thing that happened to an alert.
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
    /// Whether somebody was called.
    pub told: bool,
    /// Why nobody was: `cooldown`, `silence`, or `quiet` for what nobody is called for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untold: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AlertHistory {
    /// The latest first.
    pub entries: Vec<AlertEntry>,
    /// What to give as `before` to read on. None: there is no more.
    pub next: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertDeliveryState {
    Waiting,
    Delivered,
    GivenUp,
}

/// One message to one receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertDelivery {
    /// The same in every attempt.
    pub id: String,
    pub seq: u64,
    #[schema(format = DateTime)]
    pub at: String,
    /// The alert.
    pub name: String,
    /// `webhook`, `slack` or `email`, and the level that is called.
    pub target: String,
    pub state: AlertDeliveryState,
    pub attempts: u32,
    /// When it is tried next, or when it was settled.
    #[schema(format = DateTime)]
    pub moment: String,
    /// What came of the last attempt.
    pub last: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertDeliveries {
    /// The latest first.
    pub deliveries: Vec<AlertDelivery>,
    /// What to give as `before` to read on. None: there is no more.
    pub next: Option<u64>,
}

/// Until a moment, or for so long: one of the two.
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

/// What came of a test message, by each way that is configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertTest {
    pub results: Vec<AlertTestResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertTestResult {
    /// `log`, or `webhook`, `slack` or `email` and the level that is called.
    pub target: String,
    pub delivered: bool,
    pub message: String,
}

/// What a webhook is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AlertNotice {
    /// The same if it is sent again: what has it twice has it once too often.
    pub delivery_id: String,
    pub name: String,
    pub title: String,
    pub severity: AlertSeverity,
    pub event: AlertEvent,
    /// In one line.
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

/// What an alert about one sandbox is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlertContext {
    pub sandbox_id: String,
    pub event: String,
}
