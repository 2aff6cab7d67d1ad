//! The Prometheus rules agree with the list of alerts: same name, severity, runbook section and threshold. They are
//! written by hand.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;
use std::str::FromStr;

use pinfold_alerts::{Alert, Unit};

/// Pinfold cannot notify about its own absence.
const PROMETHEUS_ONLY: &str = "pinfold_unreachable";
/// Alerts without a metric.
const PINFOLD_ONLY: [Alert; 3] = [Alert::SandboxEvent, Alert::CleanupFoundTwice, Alert::StateCorrupted];

/// No metric counts consecutive failures, so this rule uses the number of failures in a time window.
const DIFFERENT_CONDITION: &str = "cleanup_failing";
/// Default periods of the cleanup layers.
const PERIODS_SECONDS: [f64; 4] = [60.0, 300.0, 900.0, 3_600.0];

struct Rule {
    name: String,
    text: String,
}

impl Rule {
    /// The text after the first occurrence of a key.
    fn value_of(&self, word: &str) -> Option<&str> {
        let (_, rest) = self.text.split_once(&format!("{word}: "))?;
        rest.split(['\n', '}']).next().map(str::trim)
    }

    /// The numbers that its expression compares with by this operator.
    fn compares<T: FromStr<Err: Debug>>(&self, sign: &str) -> Vec<T> {
        let (condition, _) = self.text.split_once("labels: ").unwrap();
        let words: Vec<_> = condition.split_whitespace().collect();
        let behind = words.windows(2).filter(|pair| pair[0] == sign).map(|pair| pair[1]);
        behind.map(|number| number.trim_end_matches(')').parse().unwrap()).collect()
    }
}

fn rules() -> Vec<Rule> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus/pinfold.rules.yml");
    let written = std::fs::read_to_string(path).unwrap();
    let alerts = written.split("- alert: ").skip(1).map(|rule| {
        let (name, text) = rule.split_once('\n').unwrap();
        Rule { name: name.to_owned(), text: text.to_owned() }
    });
    alerts.collect()
}

#[test]
fn every_prometheus_rule_matches_its_alert() {
    for rule in rules().iter().filter(|rule| rule.name != PROMETHEUS_ONLY) {
        let alert: Alert = rule.name.parse().unwrap();
        let known = alert.definition();
        let affects: Vec<_> = known.affects.iter().map(|objective| objective.name()).collect();

        assert_eq!(rule.value_of("severity"), Some(known.severity.name()), "{alert}");
        assert_eq!(rule.value_of("title"), Some(known.title), "{alert}");
        assert_eq!(rule.value_of("slo"), Some(affects.join(", ").as_str()), "{alert}");
        let step = format!("docs/runbook.md#{}", known.step);
        assert_eq!(rule.value_of("runbook"), Some(step.as_str()), "{alert}");
        if known.rule.sustained_ms > 0 {
            let minutes = format!("{}m", known.rule.sustained_ms / 60_000);
            assert_eq!(rule.value_of("for"), Some(minutes.as_str()), "{alert}");
        }
    }
}

#[test]
fn every_prometheus_rule_has_the_threshold_and_minimum_of_its_alert() {
    let others = [PROMETHEUS_ONLY, DIFFERENT_CONDITION];
    for rule in rules().iter().filter(|rule| !others.contains(&rule.name.as_str())) {
        let alert: Alert = rule.name.parse().unwrap();
        let known = alert.definition();
        let thresholds = match known.unit {
            Unit::Count | Unit::Share => vec![known.rule.threshold],
            // The metric is the time of the last run, and the next one is due a period later.
            Unit::Periods => PERIODS_SECONDS.map(|period| period * (known.rule.threshold + 1.0)).to_vec(),
        };
        let minimum = (known.rule.minimum > 0).then_some(known.rule.minimum);

        assert_eq!(rule.compares::<f64>(">"), thresholds, "{alert}");
        assert_eq!(rule.compares::<u64>(">="), Vec::from_iter(minimum), "{alert}");
    }
}

#[test]
fn every_alert_with_a_metric_has_one_prometheus_rule() {
    let rules = rules();
    let names: BTreeSet<_> = rules.iter().map(|rule| rule.name.as_str()).collect();

    let text = Alert::ALL.iter().filter(|alert| !PINFOLD_ONLY.contains(alert)).map(|alert| alert.name());
    let expected: BTreeSet<_> = text.chain([PROMETHEUS_ONLY]).collect();

    assert_eq!(names, expected);
    assert_eq!(names.len(), rules.len());
}
