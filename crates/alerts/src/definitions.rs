//! The definition of each alert: title, rule, severity, level and runbook section.

use crate::alert::Objective::{AgentExecutionLatency, SandboxProvisioning};
use crate::alert::Severity::{Critical, Warning};
use crate::{Alert, EscalationLevel, Objective, Rule, Severity};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Definition {
    pub title: &'static str,
    /// Description for the table in the documentation.
    pub meaning: &'static str,
    pub severity: Severity,
    /// The level that is notified first.
    pub level: EscalationLevel,
    pub affects: &'static [Objective],
    /// Unit of its value.
    pub unit: Unit,
    /// The default rule.
    pub rule: Rule,
    /// Anchor of the section in the runbook.
    pub step: &'static str,
    /// Whether its end is notified.
    pub notifies_end: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Count,
    /// A share of one, shown in percent.
    Share,
    /// In periods of a schedule.
    Periods,
}

const BOTH: &[Objective] = &[AgentExecutionLatency, SandboxProvisioning];
const EXECUTION: &[Objective] = &[AgentExecutionLatency];
const PROVISIONING: &[Objective] = &[SandboxProvisioning];

const MINUTE_MS: u64 = 60_000;
/// With fewer events, each one would change the rate by several percent.
const MIN_EVENTS: u64 = 20;

const DEFAULT: Definition = Definition {
    title: "",
    meaning: "",
    severity: Warning,
    level: EscalationLevel::AgentTeam,
    affects: BOTH,
    unit: Unit::Count,
    rule: Rule { threshold: 0.0, sustained_ms: 0, minimum: 0 },
    step: "",
    notifies_end: true,
};

/// Fires at once above the threshold.
const fn above(threshold: f64) -> Rule {
    Rule { threshold, sustained_ms: 0, minimum: 0 }
}

const fn above_for(threshold: f64, minutes: u64) -> Rule {
    Rule { threshold, sustained_ms: minutes * MINUTE_MS, minimum: 0 }
}

/// Fires above this share, if at least `minimum` events were counted.
const fn share(threshold: f64, minimum: u64) -> Rule {
    Rule { threshold, sustained_ms: 0, minimum }
}

const RATE: Definition = Definition { unit: Unit::Share, affects: EXECUTION, ..DEFAULT };
const CLEANUP: Definition = Definition { affects: PROVISIONING, step: "cleanup-does-not-work", ..DEFAULT };
/// Problems that the agent team cannot solve alone.
const ESCALATION: Definition =
    Definition { severity: Critical, level: EscalationLevel::Infrastructure, ..DEFAULT };

impl Alert {
    #[must_use]
    pub fn definition(self) -> Definition {
        match self {
            Self::SandboxTimeoutHigh => SANDBOX_TIMEOUT_HIGH,
            Self::SandboxLeakDetected => SANDBOX_LEAK_DETECTED,
            Self::SandboxFailureRateCritical => SANDBOX_FAILURE_RATE_CRITICAL,
            Self::SandboxFailureRateHigh => SANDBOX_FAILURE_RATE_HIGH,
            Self::SandboxStuck => SANDBOX_STUCK,
            Self::SandboxOrphaned => SANDBOX_ORPHANED,
            Self::SandboxOrphanDetected => SANDBOX_ORPHAN_DETECTED,
            Self::SandboxActiveHigh => SANDBOX_ACTIVE_HIGH,
            Self::SandboxEvent => SANDBOX_EVENT,
            Self::StopFailureRateHigh => STOP_FAILURE_RATE_HIGH,
            Self::InactivityTimeoutRateHigh => INACTIVITY_TIMEOUT_RATE_HIGH,
            Self::StatusDisagreesWithProbe => STATUS_DISAGREES_WITH_PROBE,
            Self::ResourcePressure => RESOURCE_PRESSURE,
            Self::CleanupFailed => CLEANUP_FAILED,
            Self::CleanupLate => CLEANUP_LATE,
            Self::CleanupFoundTwice => CLEANUP_FOUND_TWICE,
            Self::ActiveHighSustained => ACTIVE_HIGH_SUSTAINED,
            Self::CleanupFailing => CLEANUP_FAILING,
            Self::ProvisioningFailing => PROVISIONING_FAILING,
            Self::StateCorrupted => STATE_CORRUPTED,
            Self::QuotaExceeded => QUOTA_EXCEEDED,
            Self::WrongTokens => WRONG_TOKENS,
        }
    }
}

const SANDBOX_TIMEOUT_HIGH: Definition = Definition {
    title: "High Sandbox Timeout Rate",
    meaning: "too many recent executions timed out",
    affects: BOTH,
    rule: share(0.05, MIN_EVENTS),
    step: "many-runs-time-out",
    ..RATE
};

const SANDBOX_LEAK_DETECTED: Definition = Definition {
    title: "Sandbox Leak Detected",
    meaning: "too many sandboxes stay active",
    severity: Critical,
    rule: above_for(20.0, 5),
    step: "1-how-many-are-there-2-minutes",
    ..DEFAULT
};

const SANDBOX_FAILURE_RATE_CRITICAL: Definition = Definition {
    title: "Critical Sandbox Failure Rate",
    meaning: "a very large share of recent executions and starts failed",
    severity: Critical,
    affects: BOTH,
    rule: share(0.25, MIN_EVENTS),
    step: "many-runs-fail",
    ..RATE
};

const SANDBOX_FAILURE_RATE_HIGH: Definition = Definition {
    title: "High Sandbox Failure Rate",
    meaning: "a large share of recent executions and starts failed",
    affects: BOTH,
    rule: share(0.10, MIN_EVENTS),
    step: "many-runs-fail",
    ..RATE
};

const SANDBOX_STUCK: Definition = Definition {
    title: "Stuck Sandboxes",
    meaning: "sandboxes are past a deadline of their own, or cannot be proven gone",
    severity: Critical,
    rule: above(0.0),
    step: "2-which-ones-are-stuck-3-minutes",
    ..DEFAULT
};

const SANDBOX_ORPHANED: Definition = Definition {
    title: "Orphaned Sandboxes",
    meaning: "several instances were found without a row",
    affects: PROVISIONING,
    rule: above(3.0),
    step: "sandboxes-that-no-record-speaks-of",
    ..DEFAULT
};

const SANDBOX_ORPHAN_DETECTED: Definition = Definition {
    title: "Orphaned Sandbox Detected",
    meaning: "an instance was found without a row",
    affects: PROVISIONING,
    rule: above(0.0),
    step: "sandboxes-that-no-record-speaks-of",
    ..DEFAULT
};

const SANDBOX_ACTIVE_HIGH: Definition = Definition {
    title: "Many Active Sandboxes",
    meaning: "more sandboxes are active than this host is meant for",
    rule: above(50.0),
    step: "1-how-many-are-there-2-minutes",
    ..DEFAULT
};

const SANDBOX_EVENT: Definition = Definition {
    title: "Sandbox Event",
    meaning: "a sandbox is stuck, did not start in time, or had an execution that timed out; notified once per sandbox",
    affects: EXECUTION,
    rule: above(0.0),
    step: "3-what-does-it-say-5-minutes",
    notifies_end: false,
    ..DEFAULT
};

const STOP_FAILURE_RATE_HIGH: Definition = Definition {
    title: "High Stop Failure Rate",
    meaning: "too many stop attempts did not prove absence",
    affects: PROVISIONING,
    rule: share(0.10, MIN_EVENTS / 2),
    step: "stops-do-not-come-to-an-end",
    ..RATE
};

const INACTIVITY_TIMEOUT_RATE_HIGH: Definition = Definition {
    title: "High Inactivity Timeout Rate",
    meaning: "too many recent executions ended by inactivity",
    rule: share(0.20, MIN_EVENTS),
    step: "many-runs-time-out",
    ..RATE
};

const STATUS_DISAGREES_WITH_PROBE: Definition = Definition {
    title: "Status Disagrees With Probe",
    meaning: "sandboxes are recorded as live, but their probes fail or are too old",
    rule: above_for(0.0, 1),
    step: "sandboxes-do-not-answer",
    ..DEFAULT
};

const RESOURCE_PRESSURE: Definition = Definition {
    title: "Resource Pressure",
    meaning: "the host's memory, disk or processes are nearly used up",
    unit: Unit::Share,
    rule: above_for(0.80, 2),
    step: "the-host-runs-short",
    ..DEFAULT
};

const CLEANUP_FAILED: Definition = Definition {
    title: "Cleanup Failed",
    meaning: "the last cleanup failed, or could not end everything it found",
    rule: above(0.0),
    ..CLEANUP
};

const CLEANUP_LATE: Definition = Definition {
    title: "Cleanup Late",
    meaning: "a scheduled cleanup did not run",
    unit: Unit::Periods,
    rule: above(2.0),
    ..CLEANUP
};

const CLEANUP_FOUND_TWICE: Definition = Definition {
    title: "Cleanup Found The Same Twice",
    meaning: "two successive cleanups had to end the same sandbox",
    rule: above(0.0),
    ..CLEANUP
};

const ACTIVE_HIGH_SUSTAINED: Definition = Definition {
    title: "Many Active Sandboxes For Long",
    meaning: "the number of active sandboxes does not go down",
    rule: above_for(50.0, 30),
    step: "1-how-many-are-there-2-minutes",
    ..ESCALATION
};

const CLEANUP_FAILING: Definition = Definition {
    title: "Cleanup Consistently Failing",
    meaning: "several consecutive cleanups failed, or could not end everything they found",
    affects: PROVISIONING,
    rule: above(2.0),
    step: "cleanup-does-not-work",
    ..ESCALATION
};

const PROVISIONING_FAILING: Definition = Definition {
    title: "Unable To Provision Sandboxes",
    meaning: "almost all attempts to start a sandbox fail",
    unit: Unit::Share,
    rule: share(0.90, 3),
    step: "no-sandbox-can-be-made",
    ..ESCALATION
};

const STATE_CORRUPTED: Definition = Definition {
    title: "State Corruption",
    meaning: "the rows of several sandboxes cannot be read, or their instances were lost recently",
    rule: above(1.0),
    step: "records-cannot-be-read",
    ..ESCALATION
};

const QUOTA_EXCEEDED: Definition = Definition {
    title: "Resource Quota Exceeded",
    meaning: "an admission limit is used up, and new sandboxes are refused",
    affects: PROVISIONING,
    unit: Unit::Share,
    rule: above_for(0.99, 5),
    step: "no-room-is-left",
    ..ESCALATION
};

const WRONG_TOKENS: Definition = Definition {
    title: "Many Wrong Tokens",
    meaning: "requests per minute with a token that is malformed, unknown or revoked",
    level: EscalationLevel::Infrastructure,
    affects: PROVISIONING,
    rule: above(60.0),
    step: "many-requests-have-a-wrong-token",
    ..DEFAULT
};
