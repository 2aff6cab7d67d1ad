//! The table of alerts for the documentation.

use crate::{Alert, Definition, Objective, Rule, format_value};

/// As Markdown. Links begin with `runbook`.
#[must_use]
pub fn table(runbook: &str) -> String {
    let head = "| name | title | severity | level | fires when | affects | runbook |\n|---|---|---|---|---|---|---|\n";
    let rows = Alert::ALL.iter().map(|alert| row(*alert, runbook));
    rows.fold(head.to_owned(), |table, row| table + &row)
}

fn row(alert: Alert, runbook: &str) -> String {
    let Definition { title, meaning, severity, level, affects, step, .. } = alert.definition();
    let affects: Vec<_> = affects.iter().map(|objective: &Objective| objective.name()).collect();
    format!(
        "| `{alert}` | {title} | {} | {} | {}: {meaning} | {} | [step]({runbook}#{step}) |\n",
        severity.name(),
        level.number(),
        condition(alert),
        affects.join(", "),
    )
}

fn condition(alert: Alert) -> String {
    let Rule { threshold, sustained_ms, minimum } = alert.definition().rule;
    let mut text = format!("above {}", format_value(alert, threshold));
    if minimum > 0 {
        text += &format!(" of at least {minimum}");
    }
    if sustained_ms > 0 {
        text += &format!(" for {} min", sustained_ms / 60_000);
    }
    text
}
