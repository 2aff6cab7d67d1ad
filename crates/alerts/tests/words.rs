//! What people read: names, messages, and where the runbook says what to do.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::Path;

use pinfold_alerts::{
    Alert, AlertState, Event, Figures, Habits, Happening, Level, Rules, Subject, What, message, step, table,
};
use pinfold_lifecycle::Timestamp;

const NOON: Timestamp = Timestamp(1_000_000_000);
const MINUTE: u64 = 60_000;

fn happening(alert: Alert, what: What, value: Option<f64>) -> Happening {
    let since = Some(NOON);
    let at = NOON.after_ms(12 * MINUTE);
    Happening { at, alert, subject: None, what, value, since, level: Level::AgentTeam, untold: None }
}

fn said(happening: &Happening) -> String {
    message(happening, Rules::default().of(happening.alert))
}

#[test]
fn names_are_in_snake_case_and_each_is_found_by_its_own() {
    for alert in Alert::ALL {
        let name = alert.name();
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert_eq!(name.parse(), Ok(*alert));
    }
    assert!("sandbox_timeout".parse::<Alert>().is_err());
    assert_eq!(Alert::ALL.iter().map(|it| it.name()).collect::<BTreeSet<_>>().len(), Alert::ALL.len());
}

#[test]
fn the_first_two_have_the_titles_that_people_know() {
    assert_eq!(Alert::SandboxTimeoutHigh.definition().title, "High Sandbox Timeout Rate");
    assert_eq!(Alert::SandboxLeakDetected.definition().title, "Sandbox Leak Detected");
}

#[test]
fn a_message_has_the_figure_and_what_it_should_be() {
    let timeouts = |what, value| said(&happening(Alert::SandboxTimeoutHigh, what, value));

    assert_eq!(timeouts(What::Fired, Some(0.125)), "High Sandbox Timeout Rate: 12.5 % (above 5 %)");
    assert_eq!(timeouts(What::Repeated, None), "High Sandbox Timeout Rate, for 12 min now");
    assert_eq!(timeouts(What::Resolved, Some(0.0)), "Resolved after 12 min: High Sandbox Timeout Rate");
    assert_eq!(
        said(&happening(Alert::SandboxLeakDetected, What::Escalated, Some(23.0))),
        "Sandbox Leak Detected: 23 (above 20), for 12 min now; nobody has acknowledged it"
    );
}

#[test]
fn an_event_of_a_sandbox_is_told_in_the_words_that_people_know() {
    let events = vec![
        Subject { event: Event::Timeout, sandbox: "sbx_1".into() },
        Subject { event: Event::Stuck, sandbox: "sbx_2".into() },
    ];

    let figures = Figures { events: Some(events), ..Figures::default() };
    let quiet = AlertState::default();
    let fired = step(Alert::SandboxEvent, &quiet, &figures, &Rules::default(), Habits::default(), NOON);

    let said: Vec<_> = fired.happened.iter().map(said).collect();
    assert_eq!(said, ["Sandbox timeout: sbx_1", "Sandbox stuck: sbx_2"]);
}

/// As a page on the web makes a heading into a link.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

#[test]
fn every_step_in_the_runbook_is_there() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runbook.md");
    let runbook = std::fs::read_to_string(path).unwrap();
    let anchors: BTreeSet<_> = runbook
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect();

    for alert in Alert::ALL {
        let step = alert.definition().step;
        assert!(anchors.contains(step), "{alert}: docs/runbook.md has no `{step}`");
    }
}

#[test]
fn the_guide_lists_every_alert() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/alerts.md");
    let written = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- alerts:begin -->\n", "<!-- alerts:end -->");
    let (before, rest) = written.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();

    let now = format!("{before}{begin}{}{end}{after}", table("runbook.md"));

    if std::env::var_os("PINFOLD_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    } else {
        assert!(written == now, "docs/alerts.md is not the list; PINFOLD_BLESS=1 writes it anew");
    }
}
