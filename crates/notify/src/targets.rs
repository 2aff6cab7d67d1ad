//! Notification targets: a channel and an escalation level.

use std::fmt;

use pinfold_alerts::{AlertChange, ChangeKind, EscalationLevel};

use super::{AlertsConfig, Receivers};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    Webhook,
    Slack,
    Email,
}

impl Channel {
    pub const ALL: &[Self] = &[Self::Webhook, Self::Slack, Self::Email];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Slack => "slack",
            Self::Email => "email",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    pub channel: Channel,
    pub level: EscalationLevel,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.channel.name(), self.level.number())
    }
}

impl AlertsConfig {
    /// All configured targets.
    #[must_use]
    pub fn targets(&self) -> Vec<Target> {
        let all = Channel::ALL.iter().flat_map(|channel| {
            EscalationLevel::ALL.iter().map(|level| Target { channel: *channel, level: *level })
        });
        all.filter(|target| self.reaches(*target)).collect()
    }

    pub(super) fn receivers_at(&self, level: EscalationLevel) -> Option<&Receivers> {
        self.receivers.get(&level)
    }

    fn reaches(&self, target: Target) -> bool {
        let Some(receivers) = self.receivers.get(&target.level) else { return false };
        match target.channel {
            Channel::Webhook => receivers.webhook.is_some(),
            Channel::Slack => receivers.slack.is_some(),
            Channel::Email => !receivers.email.is_empty() && self.smtp.is_some(),
        }
    }

    /// The targets of an alert event. A resolution goes to every level that was notified.
    pub(super) fn route(&self, alert_change: &AlertChange) -> Vec<Target> {
        let definition = alert_change.alert.definition();
        let first = match alert_change.kind {
            ChangeKind::Resolved => definition.level.min(alert_change.level),
            ChangeKind::Fired
            | ChangeKind::Repeated
            | ChangeKind::Escalated
            | ChangeKind::Acknowledged { .. }
            | ChangeKind::Silenced { .. }
            | ChangeKind::Unsilenced { .. } => alert_change.level,
        };
        let levels = EscalationLevel::ALL.iter().filter(|level| (first..=alert_change.level).contains(level));
        let channels = self.routes.of(definition.severity);
        let mut targets: Vec<_> = levels
            .flat_map(|level| channels.iter().filter_map(|channel| self.reached(*channel, *level)))
            .collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    /// The target at this level, or at the nearest lower level that has one.
    fn reached(&self, channel: Channel, level: EscalationLevel) -> Option<Target> {
        let before = EscalationLevel::ALL.iter().rev().filter(|before| **before <= level);
        before.map(|level| Target { channel, level: *level }).find(|target| self.reaches(*target))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pinfold_alerts::Alert;
    use pinfold_lifecycle::Timestamp;

    use super::*;
    use crate::{Redacted, Smtp, SmtpSecurity, Webhook};

    fn config() -> AlertsConfig {
        let slack = |name: &str| Receivers { slack: Some(Redacted(name.into())), ..Receivers::default() };
        let first = Receivers {
            webhook: Some(Webhook { url: Redacted("http://a".into()), secret: None }),
            email: vec!["team@example.org".into()],
            ..slack("first")
        };
        let smtp = Smtp {
            host: "localhost".into(),
            port: 25,
            security: SmtpSecurity::None,
            from: "pinfold@example.org".into(),
            login: None,
        };
        AlertsConfig {
            receivers: BTreeMap::from([
                (EscalationLevel::AgentTeam, first),
                (EscalationLevel::PlatformSupport, slack("third")),
            ]),
            smtp: Some(smtp),
            ..AlertsConfig::default()
        }
    }

    fn routed(alert: Alert, what: ChangeKind, level: EscalationLevel) -> Vec<String> {
        let at = Timestamp(0);
        let alert_change = AlertChange {
            at,
            alert,
            subject: None,
            kind: what,
            value: None,
            since: None,
            level,
            suppressed: None,
        };
        config().route(&alert_change).iter().map(Target::to_string).collect()
    }

    #[test]
    fn the_severity_selects_the_channels() {
        assert_eq!(
            routed(Alert::SandboxStuck, ChangeKind::Fired, EscalationLevel::AgentTeam),
            ["webhook/1", "slack/1", "email/1"]
        );
        assert_eq!(
            routed(Alert::SandboxTimeoutHigh, ChangeKind::Fired, EscalationLevel::AgentTeam),
            ["webhook/1", "slack/1"]
        );
    }

    #[test]
    fn a_level_without_a_receiver_uses_the_previous_level() {
        assert_eq!(
            routed(Alert::StateCorrupted, ChangeKind::Fired, EscalationLevel::Infrastructure),
            ["webhook/1", "slack/1", "email/1"]
        );
        assert_eq!(
            routed(Alert::SandboxStuck, ChangeKind::Escalated, EscalationLevel::PlatformSupport),
            ["webhook/1", "slack/3", "email/1"]
        );
    }

    #[test]
    fn a_resolution_goes_to_all_notified_levels() {
        assert_eq!(
            routed(Alert::SandboxStuck, ChangeKind::Resolved, EscalationLevel::PlatformSupport),
            ["webhook/1", "slack/1", "slack/3", "email/1"]
        );
    }

    #[test]
    fn without_receivers_there_are_no_targets() {
        assert_eq!(AlertsConfig::default().targets(), []);
    }
}
