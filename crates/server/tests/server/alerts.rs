//! Alerts from the figure to whoever is called: real sandboxes, real receivers.

mod calls;
mod cleanups;
mod counts;
mod crashes;
mod mail;
mod rates;
mod receiver;
mod room;
mod sandboxes;
mod surface;

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_alerts::{Alert, Level, Rule, Rules as AlertRules};
use pinfold_server::Rules;
use pinfold_server::alerts::{AlertsConfig, Hidden, Perseverance, Receivers, Webhook};

use serde_json::Value;

use crate::ground::{Ground, rules};

const SECRET: &str = "nobody but the two of us knows this";

/// Looks often, and hurries; nothing fires but what the test lets fire.
pub(crate) fn hasty(let_fire: &[(Alert, Rule)]) -> AlertsConfig {
    let mut own = AlertRules::default();
    for alert in Alert::ALL {
        own.put(*alert, Rule { threshold: f64::MAX, sustained_ms: 0, minimum: 0 });
    }
    let_fire.iter().for_each(|(alert, rule)| own.put(*alert, *rule));
    AlertsConfig {
        every: Duration::from_millis(50),
        rules: own,
        perseverance: Perseverance {
            timeout: Duration::from_secs(10),
            first_pause: Duration::from_millis(50),
            longest_pause: Duration::from_millis(200),
            attempts: 20,
            claim: Duration::from_secs(12),
        },
        ..AlertsConfig::default()
    }
}

/// It holds from the first look on.
const ALWAYS: Rule = Rule { threshold: -1.0, sustained_ms: 0, minimum: 0 };
/// Above none.
pub(crate) const ANY: Rule = Rule { threshold: 0.0, sustained_ms: 0, minimum: 0 };

/// Above so many.
fn above(threshold: f64) -> Rule {
    Rule { threshold, ..ANY }
}

/// For as long as a test can wait.
fn before_long(rule: Rule) -> Rule {
    Rule { sustained_ms: 200, ..rule }
}

async fn until_it_is(ground: &Ground, alert: Alert, state: &str) -> Value {
    let found = |answer: &Value| of(answer, alert).filter(|it| it["state"] == state).cloned();
    ground.until(&format!("{alert} is {state}"), "/api/alerts", found).await
}

/// Which state it is in when its figure is this.
async fn state_of(ground: &Ground, alert: Alert, value: f64) -> String {
    let found = |answer: &Value| of(answer, alert).filter(|it| it["value"] == value).cloned();
    let seen = ground.until(&format!("{alert} has the figure {value}"), "/api/alerts", found).await;
    seen["state"].as_str().unwrap().to_owned()
}

fn of(answer: &Value, alert: Alert) -> Option<&Value> {
    answer["alerts"].as_array().unwrap().iter().find(|it| it["name"] == alert.name())
}

fn to_webhook(mut config: AlertsConfig, url: &str) -> AlertsConfig {
    let webhook = Webhook { url: Hidden(url.to_owned()), secret: Some(Hidden(SECRET.to_owned())) };
    let receivers = Receivers { webhook: Some(webhook), ..Receivers::default() };
    config.receivers = BTreeMap::from([(Level::AgentTeam, receivers)]);
    config
}

pub(crate) fn under(alerts: AlertsConfig) -> Rules {
    Rules { alerts, ..rules() }
}
