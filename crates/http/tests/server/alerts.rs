//! Alerts from metric to notification, with real sandboxes and receivers.

mod capacity;
mod cleanup_runs;
mod counts;
mod crashes;
mod http_api;
mod mail;
mod rates;
mod receiver;
mod sandboxes;
mod webhooks;
mod wrong_tokens;

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_alerts::{Alert, EscalationLevel, Rule, Rules as AlertRules};
use pinfold_notify::{AlertsConfig, DeliveryRetry, Receivers, Redacted, Webhook};
use pinfold_service::ServiceConfig;

use serde_json::Value;

use crate::fixture::{Fixture, rules};

const SECRET: &str = "webhook-signing-secret";

/// Evaluates often with short delays; only the given alerts can fire.
pub(crate) fn fast_alerts(let_fire: &[(Alert, Rule)]) -> AlertsConfig {
    let mut own = AlertRules::default();
    for alert in Alert::ALL {
        own.set(*alert, Rule { threshold: f64::MAX, sustained_ms: 0, minimum: 0 });
    }
    let_fire.iter().for_each(|(alert, rule)| own.set(*alert, *rule));
    AlertsConfig {
        every: Duration::from_millis(50),
        rules: own,
        retry: DeliveryRetry {
            timeout: Duration::from_secs(10),
            first_pause: Duration::from_millis(50),
            longest_pause: Duration::from_millis(200),
            attempts: 20,
            claim: Duration::from_secs(12),
        },
        ..AlertsConfig::default()
    }
}

/// Fires from the first evaluation on.
const ALWAYS: Rule = Rule { threshold: -1.0, sustained_ms: 0, minimum: 0 };
/// Fires above zero.
pub(crate) const ANY: Rule = Rule { threshold: 0.0, sustained_ms: 0, minimum: 0 };

/// Fires above a threshold.
fn above(threshold: f64) -> Rule {
    Rule { threshold, ..ANY }
}

/// Must hold for a short time before it fires.
fn sustained_briefly(rule: Rule) -> Rule {
    Rule { sustained_ms: 200, ..rule }
}

async fn wait_for_state(fixture: &Fixture, alert: Alert, state: &str) -> Value {
    let found = |answer: &Value| of(answer, alert).filter(|it| it["state"] == state).cloned();
    fixture.until(&format!("{alert} is {state}"), "/api/alerts", found).await
}

/// The alert's state once its value is `value`.
async fn state_of(fixture: &Fixture, alert: Alert, value: f64) -> String {
    let found = |answer: &Value| of(answer, alert).filter(|it| it["value"] == value).cloned();
    let seen = fixture.until(&format!("{alert} has the value {value}"), "/api/alerts", found).await;
    seen["state"].as_str().unwrap().to_owned()
}

fn of(answer: &Value, alert: Alert) -> Option<&Value> {
    answer["alerts"].as_array().unwrap().iter().find(|it| it["name"] == alert.name())
}

fn with_webhook(mut config: AlertsConfig, url: &str) -> AlertsConfig {
    let webhook = Webhook { url: Redacted(url.to_owned()), secret: Some(Redacted(SECRET.to_owned())) };
    let receivers = Receivers { webhook: Some(webhook), ..Receivers::default() };
    config.receivers = BTreeMap::from([(EscalationLevel::AgentTeam, receivers)]);
    config
}

pub(crate) fn with_alerts(alerts: AlertsConfig) -> ServiceConfig {
    ServiceConfig { alerts, ..rules() }
}
