//! When somebody is called, and how.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Duration;

use confique::Config;
use pinfold_alerts::{Alert, Habits, Level, Rule, Rules};
use pinfold_server::alerts::{
    AlertsConfig, Channel, Hidden, Perseverance, Receivers, Routes, Smtp, SmtpSecurity, Webhook,
};
use serde::{Deserialize, Serialize};

use super::load::{Loaded, SettingsError};
use super::values::{Secret, Time};

/// When somebody is called, and how. `docs/alerts.md` lists the alerts.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct AlertSettings {
    /// How often figures are looked at.
    #[config(default = "15s", env = "PINFOLD_ALERTS_EVERY")]
    pub(crate) every: Time,
    /// Rates are of what happened in this time.
    #[config(default = "15m", env = "PINFOLD_ALERTS_WINDOW")]
    pub(crate) window: Time,
    /// The same alert is told once in this time.
    #[config(default = "1h", env = "PINFOLD_ALERTS_COOLDOWN")]
    pub(crate) cooldown: Time,
    /// A critical alert that nobody acknowledges goes one level further each time this has passed.
    #[config(default = "30m", env = "PINFOLD_ALERTS_ESCALATE_AFTER")]
    pub(crate) escalate_after: Time,
    /// Where your copy of the runbook is; links in messages begin with it.
    #[config(default = "docs/runbook.md", env = "PINFOLD_ALERTS_RUNBOOK")]
    pub(crate) runbook: String,
    /// How somebody is told of what is critical, besides the log.
    #[config(default = ["webhook", "slack", "email"])]
    pub(crate) critical: Vec<Way>,
    /// How somebody is told of a warning, besides the log.
    #[config(default = ["webhook", "slack"])]
    pub(crate) warning: Vec<Way>,
    /// How somebody is told of what is good to know, besides the log.
    #[config(default = [])]
    pub(crate) info: Vec<Way>,
    /// An address that messages are posted to as JSON.
    #[config(env = "PINFOLD_ALERTS_WEBHOOK_URL")]
    pub(crate) webhook_url: Option<Secret>,
    /// With it, messages to the webhook are signed: `X-Pinfold-Signature` has the HMAC-SHA-256 of the time in
    /// `X-Pinfold-Timestamp`, a full stop and the body.
    #[config(env = "PINFOLD_ALERTS_WEBHOOK_SECRET")]
    pub(crate) webhook_secret: Option<Secret>,
    /// An incoming webhook of Slack, or of what speaks like it.
    #[config(env = "PINFOLD_ALERTS_SLACK_URL")]
    pub(crate) slack_url: Option<Secret>,
    /// Who gets mail; with commas between them in the environment.
    #[config(default = [], env = "PINFOLD_ALERTS_EMAIL_TO", parse_env = confique::env::parse::list_by_comma)]
    pub(crate) email_to: Vec<String>,
    /// Who mail is from.
    #[config(env = "PINFOLD_ALERTS_EMAIL_FROM")]
    pub(crate) email_from: Option<String>,
    /// The server that mail is handed to.
    #[config(env = "PINFOLD_ALERTS_SMTP_HOST")]
    pub(crate) smtp_host: Option<String>,
    #[config(default = 587, env = "PINFOLD_ALERTS_SMTP_PORT")]
    pub(crate) smtp_port: NonZeroU16,
    /// `tls` from the first byte, `starttls` before anything is said, or `none`.
    #[config(default = "starttls", env = "PINFOLD_ALERTS_SMTP_SECURITY")]
    pub(crate) smtp_security: Security,
    #[config(env = "PINFOLD_ALERTS_SMTP_USERNAME")]
    pub(crate) smtp_username: Option<String>,
    #[config(env = "PINFOLD_ALERTS_SMTP_PASSWORD")]
    pub(crate) smtp_password: Option<Secret>,
    /// Who else is called at level 2 (infrastructure) and 3 (platform support), such as `[alerts.levels.2]` with
    /// `slack_url`, `webhook_url`, `webhook_secret` or `email_to`. What a level does not have it leaves to the one
    /// before; what is set above is level 1 (the agent team).
    #[config(default = {})]
    pub(crate) levels: BTreeMap<String, LevelSettings>,
    /// When an alert fires otherwise than is built in, such as `[alerts.rules.sandbox_leak_detected]` with
    /// `threshold = 40`, `sustained = "10m"` or, for rates, `minimum = 50`. A rate is a share of one.
    #[config(default = {})]
    pub(crate) rules: BTreeMap<String, RuleSettings>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
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

const DAY_MS: u64 = 86_400_000;
/// Fewer looks than this within the time that looks may be apart would prove nothing.
const LOOKS_IN_A_GAP: u64 = 4;

impl Loaded {
    pub(super) fn alerts(&self) -> Result<AlertsConfig, SettingsError> {
        let alerts = &self.settings.alerts;
        self.check_alert_times()?;
        let usual = Habits::default();
        Ok(AlertsConfig {
            every: Duration::from_millis(alerts.every.0),
            window: Duration::from_millis(alerts.window.0),
            rules: self.alert_rules()?,
            habits: Habits {
                cooldown_ms: alerts.cooldown.0,
                escalate_after_ms: alerts.escalate_after.0,
                gap_ms: usual.gap_ms.max(alerts.every.0 * LOOKS_IN_A_GAP),
            },
            runbook: alerts.runbook.clone(),
            routes: Routes {
                critical: channels(&alerts.critical),
                warning: channels(&alerts.warning),
                info: channels(&alerts.info),
            },
            receivers: self.receivers()?,
            smtp: self.smtp()?,
            perseverance: Perseverance::default(),
        })
    }

    fn check_alert_times(&self) -> Result<(), SettingsError> {
        let alerts = &self.settings.alerts;
        let ranges = [
            ("alerts.every", alerts.every, 100, 600_000),
            ("alerts.window", alerts.window, 1_000, DAY_MS),
            ("alerts.cooldown", alerts.cooldown, 1_000, 7 * DAY_MS),
            ("alerts.escalate_after", alerts.escalate_after, 1_000, 7 * DAY_MS),
        ];
        for (field, given, least, most) in ranges {
            if !(least..=most).contains(&given.0) {
                let allowed = format!("allowed is from {} to {}", Time(least), Time(most));
                return Err(self.refused(field, format!("{given} is not allowed; {allowed}")));
            }
        }
        Ok(())
    }

    fn alert_rules(&self) -> Result<Rules, SettingsError> {
        let mut rules = Rules::default();
        for (name, wanted) in &self.settings.alerts.rules {
            let at = format!("alerts.rules.{name}");
            let alert: Alert = name.parse().map_err(|error: pinfold_alerts::UnknownAlert| {
                self.refused(&at, format!("{error}; `docs/alerts.md` lists them"))
            })?;
            let built_in = rules.of(alert);
            let threshold = wanted.threshold.unwrap_or(built_in.threshold);
            if !threshold.is_finite() || threshold < 0.0 {
                return Err(self.refused(&format!("{at}.threshold"), "it has to be 0 or more"));
            }
            let sustained_ms = wanted.sustained.map_or(built_in.sustained_ms, |time| time.0);
            let minimum = wanted.minimum.unwrap_or(built_in.minimum);
            rules.put(alert, Rule { threshold, sustained_ms, minimum });
        }
        Ok(rules)
    }

    fn receivers(&self) -> Result<BTreeMap<Level, Receivers>, SettingsError> {
        let alerts = &self.settings.alerts;
        let first = LevelSettings {
            webhook_url: alerts.webhook_url.clone(),
            webhook_secret: alerts.webhook_secret.clone(),
            slack_url: alerts.slack_url.clone(),
            email_to: alerts.email_to.clone(),
        };
        let mut all = BTreeMap::from([(Level::AgentTeam, self.receivers_of("alerts", &first)?)]);
        for (number, wanted) in &alerts.levels {
            let at = format!("alerts.levels.{number}");
            let level = match number.as_str() {
                "2" => Level::Infrastructure,
                "3" => Level::PlatformSupport,
                _ => return Err(self.refused(&at, "there are `2` and `3`; `1` is `[alerts]` itself")),
            };
            all.insert(level, self.receivers_of(&at, wanted)?);
        }
        all.retain(|_, receivers| *receivers != Receivers::default());
        Ok(all)
    }

    fn receivers_of(&self, at: &str, wanted: &LevelSettings) -> Result<Receivers, SettingsError> {
        if wanted.webhook_secret.is_some() && wanted.webhook_url.is_none() {
            return Err(self.refused(&format!("{at}.webhook_secret"), "it goes with a `webhook_url`"));
        }
        for (field, url) in [("webhook_url", &wanted.webhook_url), ("slack_url", &wanted.slack_url)] {
            let is_address = |url: &Secret| url.0.starts_with("https://") || url.0.starts_with("http://");
            if url.as_ref().is_some_and(|url| !is_address(url)) {
                let why = "it has to begin with `https://` or `http://`; what is there is not repeated here";
                return Err(self.refused(&format!("{at}.{field}"), why));
            }
        }
        if !wanted.email_to.is_empty() && self.settings.alerts.smtp_host.is_none() {
            return Err(self.refused(&format!("{at}.email_to"), "mail needs `alerts.smtp_host`"));
        }
        let secret = wanted.webhook_secret.as_ref().map(hidden);
        let webhook = wanted.webhook_url.as_ref().map(|url| Webhook { url: hidden(url), secret });
        let slack = wanted.slack_url.as_ref().map(hidden);
        Ok(Receivers { webhook, slack, email: wanted.email_to.clone() })
    }

    fn smtp(&self) -> Result<Option<Smtp>, SettingsError> {
        let alerts = &self.settings.alerts;
        if alerts.smtp_username.is_some() != alerts.smtp_password.is_some() {
            let why = "`smtp_username` and `smtp_password` go together; set both or none";
            return Err(self.refused("alerts.smtp_password", why));
        }
        let Some(host) = alerts.smtp_host.clone() else { return Ok(None) };
        let Some(from) = alerts.email_from.clone() else {
            return Err(self.refused("alerts.email_from", "mail has to be from somebody; set an address"));
        };
        let security = match alerts.smtp_security {
            Security::Tls => SmtpSecurity::Tls,
            Security::Starttls => SmtpSecurity::StartTls,
            Security::None => SmtpSecurity::None,
        };
        let login = alerts.smtp_username.clone().zip(alerts.smtp_password.as_ref().map(hidden));
        Ok(Some(Smtp { host, port: alerts.smtp_port.get(), security, from, login }))
    }
}

fn hidden(secret: &Secret) -> Hidden {
    Hidden(secret.0.clone())
}

fn channels(ways: &[Way]) -> Vec<Channel> {
    let channel = |way: &Way| match way {
        Way::Webhook => Channel::Webhook,
        Way::Slack => Channel::Slack,
        Way::Email => Channel::Email,
    };
    ways.iter().map(channel).collect()
}
