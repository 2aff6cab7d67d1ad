//! The text for Prometheus: stable names, bounded labels, no unknown values.

use std::collections::BTreeSet;
use std::time::Duration;

use pinfold_lifecycle::{Cause, Fact, NodeId, Outcome, ProbeResult, Record, Timestamp};

use super::*;
use crate::{AgentTypes, CleanupRun, HistoryEntry, Route, count_entry};

fn ended(number: u128) -> Record {
    let fact = Fact::ExecutionEnded {
        execution: pinfold_lifecycle::ExecutionId(number),
        outcome: Outcome::ended_for(Cause::Inactivity),
    };
    Record { at: Timestamp(1_000), by: NodeId(1), fact }
}

fn exposition_text(counters: Counters, gauges: Gauges) -> String {
    let agent_types = AgentTypes::known(["VALIDATION"]);
    Exposition { counters, agent_types, gauges }
        .text(&ProcessMetrics::default(), TextFormat::OpenMetrics)
        .unwrap()
}

/// Names with their label names, without values.
fn names(text: &str) -> BTreeSet<String> {
    let entry = text.lines().filter(|line| !line.starts_with('#'));
    entry.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
}

#[test]
fn text_ends_with_eof_and_every_metric_has_type_and_help() {
    let text = exposition_text(Counters::default(), Gauges::default());

    assert!(text.ends_with("# EOF\n"), "{text}");
    for line in text.lines().filter(|line| line.starts_with("# HELP")) {
        let has_scope =
            line.contains("(of all servers on the store)") || line.contains("pinfold_http_request");
        assert!(has_scope || line.contains("(of this process)"), "{line}");
    }
}

#[test]
fn unknown_values_are_omitted() {
    let text = exposition_text(Counters::default(), Gauges::default());

    assert!(!text.contains("pinfold_memory_free_bytes"), "{text}");
    assert!(!text.contains("pinfold_memory_limit_bytes"));
    assert!(!text.contains("pinfold_host_"));
    assert!(!text.contains("pinfold_store_bytes"));
    assert!(!text.contains("pinfold_cleanup_last_run"));
    let known = Gauges { memory_mb_left: Some(2), ..Gauges::default() };
    assert!(exposition_text(Counters::default(), known).contains("pinfold_memory_free_bytes 2097152"));
}

#[test]
fn ten_thousand_unknown_agent_types_are_one_series() {
    let types = AgentTypes::known(["VALIDATION"]);
    let executions = |names: &mut dyn Iterator<Item = String>| {
        let mut counters = Counters::default();
        for name in names {
            let agent_type = types.label(Some(&name));
            let record = ended(1);
            count_entry(
                &mut counters,
                &HistoryEntry { record: &record, earlier: &[], agent_type: &agent_type, used: None },
            );
        }
        exposition_text(counters, Gauges::default()).lines().count()
    };

    let none = executions(&mut std::iter::empty());
    let one = executions(&mut ["a".to_owned()].into_iter());
    let many = executions(&mut (0..10_000).map(|number| format!("agent{number}")));

    assert_eq!((none, one), (many, many));
}

#[test]
fn counters_are_shown_before_their_first_event() {
    let text = exposition_text(Counters::default(), Gauges::default());

    for line in [
        "pinfold_executions_total{agent_type=\"VALIDATION\",cause=\"time_limit\"} 0.0",
        "pinfold_execution_failures_total{agent_type=\"other\"} 0.0",
        "pinfold_stop_attempts_total{outcome=\"still_present\"} 0.0",
        "pinfold_timeout_cleanups_total{outcome=\"quarantined\"} 0.0",
        "pinfold_probes_total{kind=\"ping\",verdict=\"failed\"} 0.0",
        "pinfold_admissions_refused_total{reason=\"processes\"} 0.0",
        "pinfold_admissions_refused_total{reason=\"token_quota\"} 0.0",
        "pinfold_admissions_refused_total{reason=\"host_unmeasurable\"} 0.0",
        "pinfold_orphans_found_total 0.0",
        "pinfold_cleanup_runs_total{layer=\"scheduled\",outcome=\"failed\"} 0.0",
        "pinfold_cleanup_items_total{what=\"evicted\"} 0.0",
        "pinfold_cleanup_seconds_count{layer=\"emergency\"} 0",
    ] {
        assert!(text.lines().any(|entry| entry == line), "{line} is not in:\n{text}");
    }
}

#[test]
fn counters_gauges_and_histograms_are_shown_with_their_values() {
    let mut counters = Counters::default();
    counters.add(CPU, &["VALIDATION"], 1_500);
    counters.record(Latency::Stop, &[], 4);
    counters.record(Latency::Execution, &["VALIDATION"], 90_000);
    let gauges = Gauges { active: 3, by_age: [2, 0, 0, 0, 0, 1], ..Gauges::default() };

    let text = exposition_text(counters, gauges);

    for line in [
        "# TYPE pinfold_sandbox_cpu_seconds counter",
        "pinfold_sandbox_cpu_seconds_total{agent_type=\"VALIDATION\"} 1.5",
        "pinfold_sandboxes_active 3.0",
        "pinfold_sandboxes_by_age{age=\"under_1m\"} 2.0",
        "pinfold_sandboxes_by_age{age=\"older\"} 1.0",
        "# TYPE pinfold_stop_seconds histogram",
        "pinfold_stop_seconds_sum 0.004",
        "pinfold_stop_seconds_count 1",
        "pinfold_stop_seconds_bucket{le=\"0.003\"} 0",
        "pinfold_stop_seconds_bucket{le=\"0.005\"} 1",
        "pinfold_stop_seconds_bucket{le=\"+Inf\"} 1",
        "pinfold_execution_seconds_bucket{le=\"300.0\",agent_type=\"VALIDATION\"} 1",
    ] {
        assert!(text.lines().any(|entry| entry == line), "{line} is not in:\n{text}");
    }
}

/// `golden.txt` lists the names that dashboards depend on. To update it: `PINFOLD_BLESS=1`.
#[test]
fn names_and_labels_match_the_golden_file() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/exposition/golden.txt");
    let kinds = |kind| match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let line = |metric: &Metric| {
        let total = if metric.kind == Kind::Counter { "_total" } else { "" };
        format!("{} {}{total}{{{}}}\n", kinds(metric.kind), metric.name, metric.labels.join(","))
    };
    let now: String = CATALOGUE.iter().map(line).collect();

    if std::env::var_os("PINFOLD_BLESS").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), now);
}

#[test]
fn every_metric_of_the_catalogue_and_no_other_is_shown() {
    let meter = ProcessMetrics::default();
    meter.request_answered(&Route::new("GET", Some("/api/sandbox/{id}"), 200), Duration::from_millis(3));
    meter.probed(&ProbeResult::Passed, Duration::from_millis(3));
    let mut counters = meter.take();
    counters.count_cleanup(&CleanupRun {
        layer: "scheduled",
        succeeded: true,
        at_s: 7,
        took_ms: 3,
        scanned: 1,
        orphaned_found: 0,
        orphaned_ended: 0,
        stuck_ended: 0,
        evicted: 0,
        failed: 0,
    });
    for metric in CATALOGUE.iter().filter(|metric| metric.kind == Kind::Counter) {
        counters.add(metric.name, metric.labels, 1);
    }
    counters.record(Latency::Execution, &["none"], 3);
    let mut gauges = Gauges {
        memory_mb_left: Some(1),
        disk_mb_left: Some(1),
        processes_left: Some(1),
        memory_mb_total: Some(1),
        disk_mb_total: Some(1),
        processes_total: Some(1),
        store_bytes: Some(1),
        nodes: Some(1),
        ..Gauges::default()
    };
    gauges.limits.sandboxes = Some(1);
    gauges.limits.memory_mb = Some(1);
    gauges.limits.disk_mb = Some(1);
    gauges.limits.processes = Some(1);
    gauges.count(pinfold_lifecycle::State::Ready);

    let agent_types = AgentTypes::default();
    let text = Exposition { counters, agent_types, gauges }.text(&meter, TextFormat::OpenMetrics).unwrap();

    let expected: BTreeSet<_> = CATALOGUE
        .iter()
        .flat_map(|metric| match metric.kind {
            Kind::Counter => vec![format!("{}_total", metric.name)],
            Kind::Gauge => vec![metric.name.to_owned()],
            Kind::Histogram => {
                ["bucket", "count", "sum"].map(|part| format!("{}_{part}", metric.name)).to_vec()
            }
        })
        .collect();
    assert_eq!(names(&text), expected, "{text}");
}
