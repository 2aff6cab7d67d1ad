//! The rules for Prometheus say of each alert what the list says. They are written by hand, and whoever is called by
//! either has to find the same name, the same severity and the same step of the runbook, for the same reason.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;
use std::str::FromStr;

use pinfold_alerts::{Alert, Unit};

/// Pinfold cannot call anybody about itself being gone.
const PROMETHEUS_ALONE: &str = "pinfold_unreachable";
/// No metric tells of these.
const PINFOLD_ALONE: [Alert; 3] = [Alert::SandboxEvent, Alert::CleanupFoundTwice, Alert::StateCorrupted];

/// How many failed in a row no metric tells: its rule goes by how many of each there were in some time.
const TOLD_OTHERWISE: &str = "cleanup_failing";
/// How often each layer of cleanup has its turn, unless somebody decides otherwise.
const PERIODS_SECONDS: [f64; 4] = [60.0, 300.0, 900.0, 3_600.0];

struct Rule {
    name: String,
    text: String,
}

impl Rule {
    /// What stands behind the first such word of it.
    fn says(&self, word: &str) -> Option<&str> {
        let (_, rest) = self.text.split_once(&format!("{word}: "))?;
        rest.split(['\n', '}']).next().map(str::trim)
    }

    /// The numbers that its condition compares with by this sign.
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
fn every_rule_says_of_its_alert_what_the_list_says() {
    for rule in rules().iter().filter(|rule| rule.name != PROMETHEUS_ALONE) {
        let alert: Alert = rule.name.parse().unwrap();
        let known = alert.definition();
        let affects: Vec<_> = known.affects.iter().map(|objective| objective.name()).collect();

        assert_eq!(rule.says("severity"), Some(known.severity.name()), "{alert}");
        assert_eq!(rule.says("title"), Some(known.title), "{alert}");
        assert_eq!(rule.says("slo"), Some(affects.join(", ").as_str()), "{alert}");
        let step = format!("docs/runbook.md#{}", known.step);
        assert_eq!(rule.says("runbook"), Some(step.as_str()), "{alert}");
        if known.rule.sustained_ms > 0 {
            let minutes = format!("{}m", known.rule.sustained_ms / 60_000);
            assert_eq!(rule.says("for"), Some(minutes.as_str()), "{alert}");
        }
    }
}

#[test]
fn every_rule_has_the_threshold_and_the_minimum_that_the_list_has() {
    let others = [PROMETHEUS_ALONE, TOLD_OTHERWISE];
    for rule in rules().iter().filter(|rule| !others.contains(&rule.name.as_str())) {
        let alert: Alert = rule.name.parse().unwrap();
        let known = alert.definition();
        let thresholds = match known.unit {
            Unit::Count | Unit::Share => vec![known.rule.threshold],
            // The metric tells of the last turn, and the next is due a period later.
            Unit::Periods => PERIODS_SECONDS.map(|period| period * (known.rule.threshold + 1.0)).to_vec(),
        };
        let minimum = (known.rule.minimum > 0).then_some(known.rule.minimum);

        assert_eq!(rule.compares::<f64>(">"), thresholds, "{alert}");
        assert_eq!(rule.compares::<u64>(">="), Vec::from_iter(minimum), "{alert}");
    }
}

#[test]
fn every_alert_that_a_metric_tells_of_has_one_rule() {
    let rules = rules();
    let names: BTreeSet<_> = rules.iter().map(|rule| rule.name.as_str()).collect();

    let told = Alert::ALL.iter().filter(|alert| !PINFOLD_ALONE.contains(alert)).map(|alert| alert.name());
    let expected: BTreeSet<_> = told.chain([PROMETHEUS_ALONE]).collect();

    assert_eq!(names, expected);
    assert_eq!(names.len(), rules.len());
}
