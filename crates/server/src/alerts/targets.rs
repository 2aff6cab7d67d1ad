//! Whom a message goes to: a way to reach somebody, and the level of those who are called.

use std::fmt;

use pinfold_alerts::{Happening, Level, What};

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
    pub level: Level,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.channel.name(), self.level.number())
    }
}

impl AlertsConfig {
    /// Everybody who can be called.
    pub(crate) fn targets(&self) -> Vec<Target> {
        let all = Channel::ALL
            .iter()
            .flat_map(|channel| Level::ALL.iter().map(|level| Target { channel: *channel, level: *level }));
        all.filter(|target| self.reaches(*target)).collect()
    }

    pub(super) fn receivers_at(&self, level: Level) -> Option<&Receivers> {
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

    /// Who is told what happened. Its end concerns all who were called before.
    pub(super) fn route(&self, happening: &Happening) -> Vec<Target> {
        let definition = happening.alert.definition();
        let first = match happening.what {
            What::Resolved => definition.level.min(happening.level),
            What::Fired
            | What::Repeated
            | What::Escalated
            | What::Acknowledged { .. }
            | What::Silenced { .. }
            | What::Unsilenced { .. } => happening.level,
        };
        let levels = Level::ALL.iter().filter(|level| (first..=happening.level).contains(level));
        let channels = self.routes.of(definition.severity);
        let mut targets: Vec<_> = levels
            .flat_map(|level| channels.iter().filter_map(|channel| self.reached(*channel, *level)))
            .collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    /// At that level, or at the nearest before it.
    fn reached(&self, channel: Channel, level: Level) -> Option<Target> {
        let before = Level::ALL.iter().rev().filter(|before| **before <= level);
        before.map(|level| Target { channel, level: *level }).find(|target| self.reaches(*target))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pinfold_alerts::Alert;
    use pinfold_lifecycle::Timestamp;

    use super::*;
    use crate::alerts::{Hidden, Smtp, SmtpSecurity, Webhook};

    fn config() -> AlertsConfig {
        let slack = |name: &str| Receivers { slack: Some(Hidden(name.into())), ..Receivers::default() };
        let first = Receivers {
            webhook: Some(Webhook { url: Hidden("http://a".into()), secret: None }),
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
            receivers: BTreeMap::from([(Level::AgentTeam, first), (Level::PlatformSupport, slack("third"))]),
            smtp: Some(smtp),
            ..AlertsConfig::default()
        }
    }

    fn routed(alert: Alert, what: What, level: Level) -> Vec<String> {
        let at = Timestamp(0);
        let happening =
            Happening { at, alert, subject: None, what, value: None, since: None, level, untold: None };
        config().route(&happening).iter().map(Target::to_string).collect()
    }

    #[test]
    fn who_is_called_follows_from_the_severity() {
        assert_eq!(
            routed(Alert::SandboxStuck, What::Fired, Level::AgentTeam),
            ["webhook/1", "slack/1", "email/1"]
        );
        assert_eq!(
            routed(Alert::SandboxTimeoutHigh, What::Fired, Level::AgentTeam),
            ["webhook/1", "slack/1"]
        );
    }

    #[test]
    fn a_level_without_somebody_leaves_it_to_the_one_before() {
        assert_eq!(
            routed(Alert::StateCorrupted, What::Fired, Level::Infrastructure),
            ["webhook/1", "slack/1", "email/1"]
        );
        assert_eq!(
            routed(Alert::SandboxStuck, What::Escalated, Level::PlatformSupport),
            ["webhook/1", "slack/3", "email/1"]
        );
    }

    #[test]
    fn the_end_is_told_to_all_who_were_called() {
        assert_eq!(
            routed(Alert::SandboxStuck, What::Resolved, Level::PlatformSupport),
            ["webhook/1", "slack/1", "slack/3", "email/1"]
        );
    }

    #[test]
    fn without_receivers_nobody_is_called() {
        assert_eq!(AlertsConfig::default().targets(), []);
    }
}
