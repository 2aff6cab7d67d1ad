//! Alert configuration: thresholds, receivers, routes and retries.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use pinfold_alerts::{EscalationLevel, NotificationPolicy, Rules, Severity};
use pinfold_backoff::Backoff;

use super::Channel;

#[derive(Debug, Clone)]
pub struct AlertsConfig {
    /// The evaluation interval.
    pub every: Duration,
    /// The time window of rates.
    pub window: Duration,
    pub rules: Rules,
    pub notification_policy: NotificationPolicy,
    /// The address of the runbook. Links begin with it.
    pub runbook: String,
    pub routes: Routes,
    /// Receivers by escalation level. Where a level has no receiver for a channel, the previous level's is used.
    pub receivers: BTreeMap<EscalationLevel, Receivers>,
    pub smtp: Option<Smtp>,
    pub retry: DeliveryRetry,
}

impl Default for AlertsConfig {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(15),
            window: Duration::from_secs(900),
            rules: Rules::default(),
            notification_policy: NotificationPolicy::default(),
            runbook: "docs/runbook.md".to_owned(),
            routes: Routes::default(),
            receivers: BTreeMap::new(),
            smtp: None,
            retry: DeliveryRetry::default(),
        }
    }
}

/// Channels by severity. Everything is also logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    pub critical: Vec<Channel>,
    pub warning: Vec<Channel>,
    pub info: Vec<Channel>,
}

impl Default for Routes {
    fn default() -> Self {
        Self {
            critical: vec![Channel::Webhook, Channel::Slack, Channel::Email],
            warning: vec![Channel::Webhook, Channel::Slack],
            info: Vec::new(),
        }
    }
}

impl Routes {
    pub(super) fn of(&self, severity: Severity) -> &[Channel] {
        match severity {
            Severity::Critical => &self.critical,
            Severity::Warning => &self.warning,
            Severity::Info => &self.info,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Receivers {
    pub webhook: Option<Webhook>,
    /// A webhook URL of Slack. It grants write access.
    pub slack: Option<Redacted>,
    pub email: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub url: Redacted,
    /// The key that signs the requests.
    pub secret: Option<Redacted>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Smtp {
    pub host: String,
    pub port: u16,
    pub security: SmtpSecurity,
    pub from: String,
    /// User name and password.
    pub login: Option<(String, Redacted)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmtpSecurity {
    /// TLS from the first byte.
    Tls,
    /// STARTTLS, required.
    StartTls,
    /// Unencrypted.
    None,
}

/// Timeout and retries of deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryRetry {
    pub timeout: Duration,
    pub first_pause: Duration,
    /// The limit of the doubling pauses.
    pub longest_pause: Duration,
    pub attempts: u32,
    /// How long a claimed delivery is reserved for one server. Longer than an attempt may take.
    pub claim: Duration,
}

impl Default for DeliveryRetry {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            first_pause: Duration::from_secs(5),
            longest_pause: Duration::from_secs(600),
            attempts: 12,
            claim: Duration::from_secs(30),
        }
    }
}

impl DeliveryRetry {
    /// The pause after so many attempts. None: give up.
    pub(super) fn pause_after(&self, attempts: u32) -> Option<Duration> {
        if attempts >= self.attempts {
            return None;
        }
        Some(Backoff::new(self.first_pause, self.longest_pause).pause_after(attempts))
    }
}

/// A secret that `Debug` does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct Redacted(pub String);

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_end() {
        let retry =
            DeliveryRetry { longest_pause: Duration::from_secs(30), attempts: 5, ..DeliveryRetry::default() };

        let pauses: Vec<_> =
            (1..=5).map(|attempts| retry.pause_after(attempts).map(|it| it.as_secs())).collect();

        assert_eq!(pauses, [Some(5), Some(10), Some(20), Some(30), None]);
    }

    #[test]
    fn secrets_are_not_printed() {
        let config = AlertsConfig {
            receivers: BTreeMap::from([(
                EscalationLevel::AgentTeam,
                Receivers {
                    webhook: Some(Webhook {
                        url: Redacted("hunter2".into()),
                        secret: Some(Redacted("hunter2".into())),
                    }),
                    slack: Some(Redacted("hunter2".into())),
                    email: vec![],
                },
            )]),
            ..AlertsConfig::default()
        };

        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
