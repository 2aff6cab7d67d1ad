//! Texts for people: names, messages, and links into the runbook.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::Path;

use pinfold_alerts::{
    Alert, AlertChange, AlertInputs, AlertState, AlertSubject, ChangeKind, EscalationLevel,
    NotificationPolicy, Rules, SandboxEventKind, message, step, table,
};
use pinfold_lifecycle::Timestamp;

const NOON: Timestamp = Timestamp(1_000_000_000);
const MINUTE: u64 = 60_000;

fn change(alert: Alert, what: ChangeKind, value: Option<f64>) -> AlertChange {
    let since = Some(NOON);
    let at = NOON.after_ms(12 * MINUTE);
    AlertChange {
        at,
        alert,
        subject: None,
        kind: what,
        value,
        since,
        level: EscalationLevel::AgentTeam,
        suppressed: None,
    }
}

fn message_of(change: &AlertChange) -> String {
    message(change, Rules::default().of(change.alert))
}

#[test]
fn names_are_snake_case_and_parse() {
    for alert in Alert::ALL {
        let name = alert.name();
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert_eq!(name.parse(), Ok(*alert));
    }
    assert!("sandbox_timeout".parse::<Alert>().is_err());
    assert_eq!(Alert::ALL.iter().map(|it| it.name()).collect::<BTreeSet<_>>().len(), Alert::ALL.len());
}

#[test]
fn timeout_and_leak_alerts_have_their_documented_titles() {
    assert_eq!(Alert::SandboxTimeoutHigh.definition().title, "High Sandbox Timeout Rate");
    assert_eq!(Alert::SandboxLeakDetected.definition().title, "Sandbox Leak Detected");
}

#[test]
fn message_has_value_and_threshold() {
    let timeouts = |what, value| message_of(&change(Alert::SandboxTimeoutHigh, what, value));

    assert_eq!(timeouts(ChangeKind::Fired, Some(0.125)), "High Sandbox Timeout Rate: 12.5 % (above 5 %)");
    assert_eq!(timeouts(ChangeKind::Repeated, None), "High Sandbox Timeout Rate, for 12 min now");
    assert_eq!(timeouts(ChangeKind::Resolved, Some(0.0)), "Resolved after 12 min: High Sandbox Timeout Rate");
    assert_eq!(
        message_of(&change(Alert::SandboxLeakDetected, ChangeKind::Escalated, Some(23.0))),
        "Sandbox Leak Detected: 23 (above 20), for 12 min now; not acknowledged"
    );
}

#[test]
fn sandbox_event_has_its_documented_message() {
    let events = vec![
        AlertSubject { event: SandboxEventKind::Timeout, sandbox: "sbx_1".into() },
        AlertSubject { event: SandboxEventKind::Stuck, sandbox: "sbx_2".into() },
    ];

    let inputs = AlertInputs { events: Some(events), ..AlertInputs::default() };
    let quiet = AlertState::default();
    let fired =
        step(Alert::SandboxEvent, &quiet, &inputs, &Rules::default(), NotificationPolicy::default(), NOON);

    let message_of: Vec<_> = fired.changes.iter().map(message_of).collect();
    assert_eq!(message_of, ["Sandbox timeout: sbx_1", "Sandbox stuck: sbx_2"]);
}

/// The anchor of a heading, as Markdown renderers generate it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

#[test]
fn every_runbook_section_exists() {
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
fn documentation_lists_every_alert() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/alerts.md");
    let written = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- alerts:begin -->\n", "<!-- alerts:end -->");
    let (before, rest) = written.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();

    let now = format!("{before}{begin}{}{end}{after}", table("runbook.md"));

    if std::env::var_os("PINFOLD_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    } else {
        assert!(written == now, "docs/alerts.md is out of date; regenerate it with PINFOLD_BLESS=1");
    }
}
