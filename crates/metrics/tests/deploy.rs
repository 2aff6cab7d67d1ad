//! `deploy/` and `docs/metrics.md` name only existing metrics, and the dashboard names all of them.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use pinfold_metrics::{CATALOGUE, Kind, Metric, Scope, Series};
use serde_json::Value;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

/// The names as exported.
fn names(metric: &Metric) -> Vec<String> {
    match metric.kind {
        Kind::Counter => vec![format!("{}_total", metric.name)],
        Kind::Gauge => vec![metric.name.to_owned()],
        Kind::Histogram => ["bucket", "count", "sum"].map(|part| format!("{}_{part}", metric.name)).to_vec(),
    }
}

fn known() -> BTreeSet<String> {
    CATALOGUE.iter().flat_map(names).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
}

fn metrics_in(text: &str) -> BTreeSet<String> {
    words(text).filter(|word| word.starts_with("pinfold_")).map(str::to_owned).collect()
}

fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| expressions(field, found));
        }
        Value::Array(list) => list.iter().for_each(|it| expressions(it, found)),
        _ => {}
    }
}

#[test]
fn dashboard_panels_use_existing_metrics_and_cover_all() {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/pinfold.json")).unwrap();
    let mut used = Vec::new();
    expressions(&dashboard, &mut used);
    let rules = read("deploy/prometheus/pinfold.rules.yml");

    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(!panel["targets"].as_array().unwrap().is_empty(), "{}", panel["title"]);
    }
    let shown: BTreeSet<_> = used.iter().flat_map(|expression| metrics_in(expression)).collect();
    assert_eq!(shown.difference(&known()).collect::<Vec<_>>(), [""; 0]);
    for record in used.iter().flat_map(|it| words(it)).filter(|word| word.starts_with("pinfold:")) {
        assert!(rules.contains(&format!("record: {record}\n")), "{record}");
    }
    let in_rules = metrics_in(&rules);
    for metric in CATALOGUE {
        let is_shown = names(metric).iter().any(|name| shown.contains(name) || in_rules.contains(name));
        assert!(is_shown, "{} is on no panel", metric.name);
    }
}

#[test]
fn prometheus_rules_use_existing_metrics_and_are_all_tested() {
    let rules = read("deploy/prometheus/pinfold.rules.yml");
    let tests = read("deploy/prometheus/pinfold.rules.test.yml");
    let alerts: BTreeSet<_> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();

    let mut used = metrics_in(&rules);
    used.retain(|word| !alerts.contains(word.as_str()));
    // The names of the two rule groups.
    used.retain(|word| word != "pinfold_metrics" && word != "pinfold_alerts");

    assert_eq!(used.difference(&known()).collect::<Vec<_>>(), [""; 0]);
    for alert in alerts {
        assert!(tests.contains(&format!("alertname: {alert}\n")), "{alert} is not tested");
    }
}

fn table() -> String {
    let mut table = "| metric | kind | labels | of | meaning |\n|---|---|---|---|---|\n".to_owned();
    for metric in CATALOGUE {
        let (name, kind) = match metric.kind {
            Kind::Counter => (format!("{}_total", metric.name), "counter"),
            Kind::Gauge => (metric.name.to_owned(), "gauge"),
            Kind::Histogram => (metric.name.to_owned(), "histogram"),
        };
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let whose = match metric.scope {
            Scope::Fleet => "all servers",
            Scope::Process => "this process",
        };
        writeln!(table, "| `{name}` | {kind} | {} | {whose} | {} |", labels.join(", "), metric.help).unwrap();
    }
    table
}

fn series() -> String {
    let names: Vec<_> = Series::all().map(|series| format!("`{}`", series.name())).collect();
    format!("{}\n", names.join(", "))
}

fn with_part(text: &str, name: &str, part: &str) -> String {
    let (begin, end) = (format!("<!-- {name}:begin -->\n"), format!("<!-- {name}:end -->"));
    let (before, rest) = text.split_once(&begin).unwrap();
    let (_, after) = rest.split_once(&end).unwrap();
    format!("{before}{begin}{part}{end}{after}")
}

/// The quoted parts of a text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_objective_names_existing_metrics_or_is_marked_unmeasured() {
    let document = read("docs/metrics.md");
    let (_, rest) = document.split_once("<!-- targets:begin -->\n").unwrap();
    let (rows, _) = rest.split_once("<!-- targets:end -->").unwrap();
    let alerts = read("docs/alerts.md");
    let there_is = |name: &str| {
        let is_metric =
            CATALOGUE.iter().any(|metric| names(metric).iter().any(|it| it == name) || metric.name == name);
        is_metric || Series::parse(name).is_ok() || alerts.contains(&format!("| `{name}` |"))
    };

    let aims: Vec<_> = rows.lines().skip(2).collect();

    assert!(aims.len() >= 9, "{aims:#?}");
    for aim in aims {
        let shown_by = aim.rsplit('|').nth(1).unwrap();
        assert_eq!(quoted(shown_by).find(|name| !there_is(name)), None, "{aim}");
        assert!(quoted(shown_by).next().is_some() || shown_by.contains("not measured"), "{aim}");
    }
}

#[test]
fn documentation_lists_every_metric() {
    let path = repository().join("docs/metrics.md");
    let written = std::fs::read_to_string(&path).unwrap();

    let now = with_part(&with_part(&written, "metrics", &table()), "series", &series());

    if std::env::var_os("PINFOLD_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    } else {
        assert!(written == now, "docs/metrics.md is out of date; regenerate it with PINFOLD_BLESS=1");
    }
}
