//! The closed list of alerts, with severities, objectives and escalation levels.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Generates the enum, its names and its order from one table, so that none of them can miss an entry.
macro_rules! alerts {
    ($($(#[$doc:meta])* $alert:ident = $name:literal,)*) => {
        /// The alerts. Their names are stable, because silences, routes and dashboards refer to them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Alert {
            $($(#[$doc])* #[serde(rename = $name)] $alert,)*
        }

        impl Alert {
            pub const ALL: &[Self] = &[$(Self::$alert,)*];

            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$alert => $name,)*
                }
            }
        }
    };
}

alerts! {
    SandboxTimeoutHigh = "sandbox_timeout_high",
    SandboxLeakDetected = "sandbox_leak_detected",
    SandboxFailureRateCritical = "sandbox_failure_rate_critical",
    SandboxFailureRateHigh = "sandbox_failure_rate_high",
    SandboxStuck = "sandbox_stuck",
    SandboxOrphaned = "sandbox_orphaned",
    SandboxOrphanDetected = "sandbox_orphan_detected",
    SandboxActiveHigh = "sandbox_active_high",
    /// Concerns a single sandbox.
    SandboxEvent = "sandbox_event",
    StopFailureRateHigh = "stop_failure_rate_high",
    InactivityTimeoutRateHigh = "inactivity_timeout_rate_high",
    StatusDisagreesWithProbe = "status_disagrees_with_probe",
    ResourcePressure = "resource_pressure",
    CleanupFailed = "cleanup_failed",
    CleanupLate = "cleanup_late",
    CleanupFoundTwice = "cleanup_found_twice",
    ActiveHighSustained = "active_high_sustained",
    CleanupFailing = "cleanup_failing",
    ProvisioningFailing = "provisioning_failing",
    StateCorrupted = "state_corrupted",
    QuotaExceeded = "quota_exceeded",
    WrongTokens = "wrong_tokens",
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown alert `{given}`")]
pub struct UnknownAlert {
    given: String,
}

impl FromStr for Alert {
    type Err = UnknownAlert;

    fn from_str(given: &str) -> Result<Self, UnknownAlert> {
        let found = Self::ALL.iter().find(|alert| alert.name() == given);
        found.copied().ok_or_else(|| UnknownAlert { given: given.to_owned() })
    }
}

/// Ordered from harmless to severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Info,
    Warning,
    Critical,
}

impl Severity {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// The service level objective that is at risk while an alert fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Objective {
    AgentExecutionLatency,
    SandboxProvisioning,
}

impl Objective {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AgentExecutionLatency => "agent execution latency",
            Self::SandboxProvisioning => "sandbox provisioning",
        }
    }
}

/// Who is notified. Each level has fewer people with wider responsibility.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EscalationLevel {
    AgentTeam,
    Infrastructure,
    PlatformSupport,
}

impl EscalationLevel {
    pub const ALL: &[Self] = &[Self::AgentTeam, Self::Infrastructure, Self::PlatformSupport];

    /// Counted from one.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::AgentTeam => 1,
            Self::Infrastructure => 2,
            Self::PlatformSupport => 3,
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AgentTeam => "agent team",
            Self::Infrastructure => "infrastructure",
            Self::PlatformSupport => "platform support",
        }
    }

    /// The level this many steps up. The last one has no further level.
    pub(crate) fn escalated_by(self, steps: u64) -> Self {
        let at = u64::from(self.number()) - 1;
        let to = usize::try_from(at.saturating_add(steps)).unwrap_or(usize::MAX);
        Self::ALL.get(to).copied().unwrap_or(Self::PlatformSupport)
    }
}
