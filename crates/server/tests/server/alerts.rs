//! Alerts from the figure to whoever is called: real sandboxes, real receivers.

mod calls;
mod crashes;
mod mail;
mod receiver;
mod sandboxes;
mod surface;

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_alerts::{Alert, Level, Rule, Rules as AlertRules};
use pinfold_server::Rules;
use pinfold_server::alerts::{AlertsConfig, Hidden, Perseverance, Receivers, Webhook};

use crate::ground::rules;

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

fn to_webhook(mut config: AlertsConfig, url: &str) -> AlertsConfig {
    let webhook = Webhook { url: Hidden(url.to_owned()), secret: Some(Hidden(SECRET.to_owned())) };
    let receivers = Receivers { webhook: Some(webhook), ..Receivers::default() };
    config.receivers = BTreeMap::from([(Level::AgentTeam, receivers)]);
    config
}

pub(crate) fn under(alerts: AlertsConfig) -> Rules {
    Rules { alerts, ..rules() }
}
