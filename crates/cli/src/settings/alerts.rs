//! Settings of alerts, and their conversion to the server's configuration.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Duration;

use confique::Config;
use pinfold_alerts::{Alert, EscalationLevel, NotificationPolicy, Rule, Rules};
use pinfold_notify::{
    AlertsConfig, Channel, DeliveryRetry, Receivers, Redacted, Routes, Smtp, SmtpSecurity, Webhook,
};
use serde::{Deserialize, Serialize};

use super::load::{Loaded, SettingsError};
use super::values::{Secret, Time};

/// When alerts fire, and where notifications are sent. `docs/alerts.md` lists the alerts.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct AlertSettings {
    /// Interval between evaluations.
    #[config(default = "15s", env = "PINFOLD_ALERTS_EVERY")]
    pub(crate) every: Time,
    /// Time window of rates.
    #[config(default = "15m", env = "PINFOLD_ALERTS_WINDOW")]
    pub(crate) window: Time,
    /// Shortest time between two notifications of the same alert.
    #[config(default = "1h", env = "PINFOLD_ALERTS_COOLDOWN")]
    pub(crate) cooldown: Time,
    /// A critical alert that is not acknowledged escalates one level each time this has passed.
    #[config(default = "30m", env = "PINFOLD_ALERTS_ESCALATE_AFTER")]
    pub(crate) escalate_after: Time,
    /// Address of your copy of the runbook; links in notifications begin with it.
    #[config(default = "docs/runbook.md", env = "PINFOLD_ALERTS_RUNBOOK")]
    pub(crate) runbook: String,
    /// Channels of critical alerts, besides the log.
    #[config(default = ["webhook", "slack", "email"])]
    pub(crate) critical: Vec<ChannelSetting>,
    /// Channels of warnings, besides the log.
    #[config(default = ["webhook", "slack"])]
    pub(crate) warning: Vec<ChannelSetting>,
    /// Channels of informational alerts, besides the log.
    #[config(default = [])]
    pub(crate) info: Vec<ChannelSetting>,
    /// Address to which notifications are posted as JSON.
    #[config(env = "PINFOLD_ALERTS_WEBHOOK_URL")]
    pub(crate) webhook_url: Option<Secret>,
    /// Key that signs notifications to the webhook: `X-Pinfold-Signature` is the HMAC-SHA-256 of the time in
    /// `X-Pinfold-Timestamp`, a full stop and the body.
    #[config(env = "PINFOLD_ALERTS_WEBHOOK_SECRET")]
    pub(crate) webhook_secret: Option<Secret>,
    /// Incoming webhook of Slack, or of a compatible service.
    #[config(env = "PINFOLD_ALERTS_SLACK_URL")]
    pub(crate) slack_url: Option<Secret>,
    /// Mail recipients; separated by commas in the environment.
    #[config(default = [], env = "PINFOLD_ALERTS_EMAIL_TO", parse_env = confique::env::parse::list_by_comma)]
    pub(crate) email_to: Vec<String>,
    /// Sender address of mail.
    #[config(env = "PINFOLD_ALERTS_EMAIL_FROM")]
    pub(crate) email_from: Option<String>,
    /// SMTP server.
    #[config(env = "PINFOLD_ALERTS_SMTP_HOST")]
    pub(crate) smtp_host: Option<String>,
    #[config(default = 587, env = "PINFOLD_ALERTS_SMTP_PORT")]
    pub(crate) smtp_port: NonZeroU16,
    /// `tls` (implicit TLS), `starttls`, or `none`.
    #[config(default = "starttls", env = "PINFOLD_ALERTS_SMTP_SECURITY")]
    pub(crate) smtp_security: Security,
    #[config(env = "PINFOLD_ALERTS_SMTP_USERNAME")]
    pub(crate) smtp_username: Option<String>,
    #[config(env = "PINFOLD_ALERTS_SMTP_PASSWORD")]
    pub(crate) smtp_password: Option<Secret>,
    /// Further recipients at level 2 (infrastructure) and 3 (platform support), such as `[alerts.levels.2]` with
    /// `slack_url`, `webhook_url`, `webhook_secret` or `email_to`. A channel that a level does not set is taken from the
    /// level before. The settings above are level 1 (the agent team).
    #[config(default = {})]
    pub(crate) levels: BTreeMap<String, LevelSettings>,
    /// Rules that differ from the built-in ones, such as `[alerts.rules.sandbox_leak_detected]` with
    /// `threshold = 40`, `sustained = "10m"` or, for rates, `minimum = 50`. Rates are fractions from 0 to 1.
    #[config(default = {})]
    pub(crate) rules: BTreeMap<String, RuleSettings>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ChannelSetting {
    Webhook,
    Slack,
    Email,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Security {
    Tls,
    Starttls,
    None,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LevelSettings {
    pub(crate) webhook_url: Option<Secret>,
    pub(crate) webhook_secret: Option<Secret>,
    pub(crate) slack_url: Option<Secret>,
    #[serde(default)]
    pub(crate) email_to: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleSettings {
    pub(crate) threshold: Option<f64>,
    pub(crate) sustained: Option<Time>,
    pub(crate) minimum: Option<u64>,
}

/// Evaluations that must fit into the longest allowed gap between two of them.
const MIN_CHECKS_PER_GAP: u64 = 4;

impl Loaded {
    pub(super) fn alerts(&self) -> Result<AlertsConfig, SettingsError> {
        let alerts = &self.settings.alerts;
        let usual = NotificationPolicy::default();
        Ok(AlertsConfig {
            every: Duration::from_millis(alerts.every.0),
            window: Duration::from_millis(alerts.window.0),
            rules: self.alert_rules()?,
            notification_policy: NotificationPolicy {
                cooldown_ms: alerts.cooldown.0,
                escalate_after_ms: alerts.escalate_after.0,
                gap_ms: usual.gap_ms.max(alerts.every.0 * MIN_CHECKS_PER_GAP),
            },
            runbook: alerts.runbook.clone(),
            routes: Routes {
                critical: channels(&alerts.critical),
                warning: channels(&alerts.warning),
                info: channels(&alerts.info),
            },
            receivers: self.receivers()?,
            smtp: self.smtp()?,
            retry: DeliveryRetry::default(),
        })
    }

    fn alert_rules(&self) -> Result<Rules, SettingsError> {
        let mut rules = Rules::default();
        for (name, wanted) in &self.settings.alerts.rules {
            let at = format!("alerts.rules.{name}");
            let alert: Alert = name.parse().map_err(|error: pinfold_alerts::UnknownAlert| {
                self.invalid(&at, format!("{error}; `docs/alerts.md` lists them"))
            })?;
            let defaults = rules.of(alert);
            let threshold = wanted.threshold.unwrap_or(defaults.threshold);
            let sustained_ms = wanted.sustained.map_or(defaults.sustained_ms, |time| time.0);
            let minimum = wanted.minimum.unwrap_or(defaults.minimum);
            rules.set(alert, Rule { threshold, sustained_ms, minimum });
        }
        Ok(rules)
    }

    fn receivers(&self) -> Result<BTreeMap<EscalationLevel, Receivers>, SettingsError> {
        let alerts = &self.settings.alerts;
        let first = LevelSettings {
            webhook_url: alerts.webhook_url.clone(),
            webhook_secret: alerts.webhook_secret.clone(),
            slack_url: alerts.slack_url.clone(),
            email_to: alerts.email_to.clone(),
        };
        let mut all = BTreeMap::from([(EscalationLevel::AgentTeam, self.receivers_of("alerts", &first)?)]);
        for (number, wanted) in &alerts.levels {
            let at = format!("alerts.levels.{number}");
            let level = match number.as_str() {
                "2" => EscalationLevel::Infrastructure,
                "3" => EscalationLevel::PlatformSupport,
                _ => return Err(self.invalid(&at, "allowed are `2` and `3`; `1` is `[alerts]` itself")),
            };
            all.insert(level, self.receivers_of(&at, wanted)?);
        }
        all.retain(|_, receivers| *receivers != Receivers::default());
        Ok(all)
    }

    fn receivers_of(&self, at: &str, wanted: &LevelSettings) -> Result<Receivers, SettingsError> {
        if wanted.webhook_secret.is_some() && wanted.webhook_url.is_none() {
            return Err(self.invalid(&format!("{at}.webhook_secret"), "needs `webhook_url` to be set too"));
        }
        for (field, url) in [("webhook_url", &wanted.webhook_url), ("slack_url", &wanted.slack_url)] {
            let is_address = |url: &Secret| url.0.starts_with("https://") || url.0.starts_with("http://");
            if url.as_ref().is_some_and(|url| !is_address(url)) {
                let why = "must begin with `https://` or `http://` (value not shown)";
                return Err(self.invalid(&format!("{at}.{field}"), why));
            }
        }
        if !wanted.email_to.is_empty() && self.settings.alerts.smtp_host.is_none() {
            return Err(self.invalid(&format!("{at}.email_to"), "mail needs `alerts.smtp_host`"));
        }
        let secret = wanted.webhook_secret.as_ref().map(redacted);
        let webhook = wanted.webhook_url.as_ref().map(|url| Webhook { url: redacted(url), secret });
        let slack = wanted.slack_url.as_ref().map(redacted);
        Ok(Receivers { webhook, slack, email: wanted.email_to.clone() })
    }

    fn smtp(&self) -> Result<Option<Smtp>, SettingsError> {
        let alerts = &self.settings.alerts;
        if alerts.smtp_username.is_some() != alerts.smtp_password.is_some() {
            let why = "`smtp_username` and `smtp_password` belong together; set both or none";
            return Err(self.invalid("alerts.smtp_password", why));
        }
        let Some(host) = alerts.smtp_host.clone() else { return Ok(None) };
        let Some(from) = alerts.email_from.clone() else {
            return Err(self.invalid("alerts.email_from", "must be set to send mail"));
        };
        let security = match alerts.smtp_security {
            Security::Tls => SmtpSecurity::Tls,
            Security::Starttls => SmtpSecurity::StartTls,
            Security::None => SmtpSecurity::None,
        };
        let login = alerts.smtp_username.clone().zip(alerts.smtp_password.as_ref().map(redacted));
        Ok(Some(Smtp { host, port: alerts.smtp_port.get(), security, from, login }))
    }
}

fn redacted(secret: &Secret) -> Redacted {
    Redacted(secret.0.clone())
}

fn channels(settings: &[ChannelSetting]) -> Vec<Channel> {
    let channel = |setting: &ChannelSetting| match setting {
        ChannelSetting::Webhook => Channel::Webhook,
        ChannelSetting::Slack => Channel::Slack,
        ChannelSetting::Email => Channel::Email,
    };
    settings.iter().map(channel).collect()
}
