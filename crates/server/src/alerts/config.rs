//! What whoever runs a server has decided about alerts.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use pinfold_alerts::{Habits, Level, Rules, Severity};

use super::Channel;

#[derive(Debug, Clone)]
pub struct AlertsConfig {
    /// How often figures are looked at.
    pub every: Duration,
    /// Rates are of what happened in this time.
    pub window: Duration,
    pub rules: Rules,
    pub habits: Habits,
    /// Where the runbook is; links begin with it.
    pub runbook: String,
    pub routes: Routes,
    /// Who is called at which level. A level that has nobody of a kind leaves it to the one before.
    pub receivers: BTreeMap<Level, Receivers>,
    pub smtp: Option<Smtp>,
    pub perseverance: Perseverance,
}

impl Default for AlertsConfig {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(15),
            window: Duration::from_secs(900),
            rules: Rules::default(),
            habits: Habits::default(),
            runbook: "docs/runbook.md".to_owned(),
            routes: Routes::default(),
            receivers: BTreeMap::new(),
            smtp: None,
            perseverance: Perseverance::default(),
        }
    }
}

/// How somebody is called, besides the log, which is told of everything.
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
    /// The address is all that it takes to write there.
    pub slack: Option<Hidden>,
    pub email: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub url: Hidden,
    /// Messages are signed with it.
    pub secret: Option<Hidden>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Smtp {
    pub host: String,
    pub port: u16,
    pub security: SmtpSecurity,
    pub from: String,
    /// Name and password.
    pub login: Option<(String, Hidden)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmtpSecurity {
    /// Encrypted from the first byte.
    Tls,
    /// Encrypted before anything is said, or not sent.
    StartTls,
    /// Not at all.
    None,
}

/// How long a receiver is waited for, and how often it is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Perseverance {
    pub timeout: Duration,
    pub first_pause: Duration,
    /// Pauses double until they are so long.
    pub longest_pause: Duration,
    pub attempts: u32,
    /// Nobody else tries while one does. Longer than an attempt may take.
    pub claim: Duration,
}

impl Default for Perseverance {
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

impl Perseverance {
    /// After so many attempts. None: that was the last.
    pub(super) fn pause_after(&self, attempts: u32) -> Option<Duration> {
        if attempts >= self.attempts {
            return None;
        }
        let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
        Some(self.first_pause.saturating_mul(doubled).min(self.longest_pause))
    }
}

/// Used, and never written anywhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_come_to_an_end() {
        let how =
            Perseverance { longest_pause: Duration::from_secs(30), attempts: 5, ..Perseverance::default() };

        let pauses: Vec<_> =
            (1..=5).map(|attempts| how.pause_after(attempts).map(|it| it.as_secs())).collect();

        assert_eq!(pauses, [Some(5), Some(10), Some(20), Some(30), None]);
    }

    #[test]
    fn what_is_hidden_is_not_printed() {
        let config = AlertsConfig {
            receivers: BTreeMap::from([(
                Level::AgentTeam,
                Receivers {
                    webhook: Some(Webhook {
                        url: Hidden("hunter2".into()),
                        secret: Some(Hidden("hunter2".into())),
                    }),
                    slack: Some(Hidden("hunter2".into())),
                    email: vec![],
                },
            )]),
            ..AlertsConfig::default()
        };

        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
