//! Everything that is decided about each alert ahead of time.

use crate::alert::Objective::{AgentExecutionLatency, SandboxProvisioning};
use crate::alert::Severity::{Critical, Warning};
use crate::{Alert, Level, Objective, Rule, Severity};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Definition {
    pub title: &'static str,
    /// What it says, for the table.
    pub meaning: &'static str,
    pub severity: Severity,
    /// Who is called first.
    pub level: Level,
    pub affects: &'static [Objective],
    /// How its figure is written.
    pub unit: Unit,
    /// When it fires, unless somebody decides otherwise.
    pub rule: Rule,
    /// The heading in the runbook, as a link names it.
    pub step: &'static str,
    /// Whether its end is told to those who were called.
    pub end_is_told: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Count,
    /// As a share of one; told in percent.
    Share,
    /// In periods of a schedule.
    Periods,
}

const BOTH: &[Objective] = &[AgentExecutionLatency, SandboxProvisioning];
const EXECUTION: &[Objective] = &[AgentExecutionLatency];
const PROVISIONING: &[Objective] = &[SandboxProvisioning];

const MINUTE_MS: u64 = 60_000;
/// Of fewer, each one would be worth several percent.
const ENOUGH: u64 = 20;

const USUAL: Definition = Definition {
    title: "",
    meaning: "",
    severity: Warning,
    level: Level::AgentTeam,
    affects: BOTH,
    unit: Unit::Count,
    rule: Rule { threshold: 0.0, sustained_ms: 0, minimum: 0 },
    step: "",
    end_is_told: true,
};

/// More than so many, at once.
const fn above(threshold: f64) -> Rule {
    Rule { threshold, sustained_ms: 0, minimum: 0 }
}

const fn above_for(threshold: f64, minutes: u64) -> Rule {
    Rule { threshold, sustained_ms: minutes * MINUTE_MS, minimum: 0 }
}

/// A larger share, of at least so many.
const fn share(threshold: f64, minimum: u64) -> Rule {
    Rule { threshold, sustained_ms: 0, minimum }
}

const RATE: Definition = Definition { unit: Unit::Share, affects: EXECUTION, ..USUAL };
const CLEANUP: Definition = Definition { affects: PROVISIONING, step: "cleanup-does-not-work", ..USUAL };
/// What the first who are called cannot put right alone.
const ESCALATION: Definition = Definition { severity: Critical, level: Level::Infrastructure, ..USUAL };

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
        }
    }
}

const SANDBOX_TIMEOUT_HIGH: Definition = Definition {
    title: "High Sandbox Timeout Rate",
    meaning: "of the executions that ended lately, too many took too long",
    affects: BOTH,
    rule: share(0.05, ENOUGH),
    step: "many-runs-time-out",
    ..RATE
};

const SANDBOX_LEAK_DETECTED: Definition = Definition {
    title: "Sandbox Leak Detected",
    meaning: "more sandboxes are active than should be, and it stays so",
    severity: Critical,
    rule: above_for(20.0, 5),
    step: "1-how-many-are-there-2-minutes",
    ..USUAL
};

const SANDBOX_FAILURE_RATE_CRITICAL: Definition = Definition {
    title: "Critical Sandbox Failure Rate",
    meaning: "of the executions that ended lately and starts that came to none, very many came to grief",
    severity: Critical,
    affects: BOTH,
    rule: share(0.25, ENOUGH),
    step: "many-runs-fail",
    ..RATE
};

const SANDBOX_FAILURE_RATE_HIGH: Definition = Definition {
    title: "High Sandbox Failure Rate",
    meaning: "of the executions that ended lately and starts that came to none, many came to grief",
    affects: BOTH,
    rule: share(0.10, ENOUGH),
    step: "many-runs-fail",
    ..RATE
};

const SANDBOX_STUCK: Definition = Definition {
    title: "Stuck Sandboxes",
    meaning: "sandboxes are past a deadline of their own, or cannot be proven gone",
    severity: Critical,
    rule: above(0.0),
    step: "2-which-ones-are-stuck-3-minutes",
    ..USUAL
};

const SANDBOX_ORPHANED: Definition = Definition {
    title: "Orphaned Sandboxes",
    meaning: "several sandboxes were found that no record spoke of",
    affects: PROVISIONING,
    rule: above(3.0),
    step: "sandboxes-that-no-record-speaks-of",
    ..USUAL
};

const SANDBOX_ORPHAN_DETECTED: Definition = Definition {
    title: "Orphaned Sandbox Detected",
    meaning: "a sandbox was found that no record spoke of",
    affects: PROVISIONING,
    rule: above(0.0),
    step: "sandboxes-that-no-record-speaks-of",
    ..USUAL
};

const SANDBOX_ACTIVE_HIGH: Definition = Definition {
    title: "Many Active Sandboxes",
    meaning: "more sandboxes are active than this host is meant for",
    rule: above(50.0),
    step: "1-how-many-are-there-2-minutes",
    ..USUAL
};

const SANDBOX_EVENT: Definition = Definition {
    title: "Sandbox Event",
    meaning: "one sandbox is stuck, did not start in time, or had work in it that took too long; told once for each",
    affects: EXECUTION,
    rule: above(0.0),
    step: "3-what-does-it-say-5-minutes",
    end_is_told: false,
    ..USUAL
};

const STOP_FAILURE_RATE_HIGH: Definition = Definition {
    title: "High Stop Failure Rate",
    meaning: "of the attempts to stop a sandbox, too many proved nothing",
    affects: PROVISIONING,
    rule: share(0.10, ENOUGH / 2),
    step: "stops-do-not-come-to-an-end",
    ..RATE
};

const INACTIVITY_TIMEOUT_RATE_HIGH: Definition = Definition {
    title: "High Inactivity Timeout Rate",
    meaning: "of the executions that ended lately, too many had fallen silent",
    rule: share(0.20, ENOUGH),
    step: "many-runs-time-out",
    ..RATE
};

const STATUS_DISAGREES_WITH_PROBE: Definition = Definition {
    title: "Status Disagrees With Probe",
    meaning: "sandboxes are recorded as live, and their probes fail or are too old to prove it",
    rule: above_for(0.0, 1),
    step: "sandboxes-do-not-answer",
    ..USUAL
};

const RESOURCE_PRESSURE: Definition = Definition {
    title: "Resource Pressure",
    meaning: "the host's memory, disk or processes are nearly used up",
    unit: Unit::Share,
    rule: above_for(0.80, 2),
    step: "the-host-runs-short",
    ..USUAL
};

const CLEANUP_FAILED: Definition = Definition {
    title: "Cleanup Failed",
    meaning: "the last cleanup did not come to its end, or could not end all that it found",
    rule: above(0.0),
    ..CLEANUP
};

const CLEANUP_LATE: Definition = Definition {
    title: "Cleanup Late",
    meaning: "a cleanup should have run long ago",
    unit: Unit::Periods,
    rule: above(2.0),
    ..CLEANUP
};

const CLEANUP_FOUND_TWICE: Definition = Definition {
    title: "Cleanup Found The Same Twice",
    meaning: "a cleanup had to end what an earlier one had ended",
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
    meaning: "several cleanups in a row did not come to their end, or could not end all that they found",
    affects: PROVISIONING,
    rule: above(2.0),
    step: "cleanup-does-not-work",
    ..ESCALATION
};

const PROVISIONING_FAILING: Definition = Definition {
    title: "Unable To Provision Sandboxes",
    meaning: "hardly any attempt to start a sandbox succeeds",
    unit: Unit::Share,
    rule: share(0.90, 3),
    step: "no-sandbox-can-be-made",
    ..ESCALATION
};

const STATE_CORRUPTED: Definition = Definition {
    title: "State Corruption",
    meaning: "the records of several sandboxes cannot be read, or their bodies were lost lately",
    rule: above(1.0),
    step: "records-cannot-be-read",
    ..ESCALATION
};

const QUOTA_EXCEEDED: Definition = Definition {
    title: "Resource Quota Exceeded",
    meaning: "all sandboxes together have taken what they may, and new ones are refused",
    affects: PROVISIONING,
    unit: Unit::Share,
    rule: above_for(0.99, 5),
    step: "no-room-is-left",
    ..ESCALATION
};
