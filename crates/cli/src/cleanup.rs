//! `pinfold cleanup`: stops the sandboxes that one cleanup layer finds, or in an emergency all that are not critical,
//! and prints the result of each.

use std::process::ExitCode;

use pinfold_api::{CleanupLayer, CleanupResult, CleanupRun, CleanupSchedule};
use serde::Serialize;

use crate::GlobalOptions;
use crate::backend::Backend;
use crate::colour::StatusColour;
use crate::exit;
use crate::json_output::{self, wire_name};
use crate::progress::Progress;
use crate::stop;
use crate::table::{escape_control, format_table};
use crate::units::milliseconds;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which layer to run, by default `scheduled`: `scheduled` stops sandboxes that are past a deadline, unhealthy or
    /// silent; `by_age` also stops old ones that do not answer; `pressure` frees a resource that runs short; `reconcile` repairs records that differ from instances
    #[arg(long, value_name = "NAME", value_enum, hide_possible_values = true, conflicts_with = "emergency")]
    layer: Option<Layer>,
    /// Stop every sandbox that is not critical, healthy or not
    #[arg(long)]
    emergency: bool,
    /// Stop every sandbox that is older and not critical, whatever it does: seconds, or 90s, 10m, 1h
    #[arg(long, value_name = "TIME", value_parser = milliseconds, allow_hyphen_values = true, conflicts_with_all = ["layer", "emergency"])]
    older_than: Option<u64>,
    /// Only print what would be done
    #[arg(long)]
    dry_run: bool,
    /// Show when each layer runs next and the results of the last runs, and do nothing
    #[arg(long, conflicts_with_all = ["layer", "emergency", "older_than", "dry_run"])]
    runs: bool,
}

/// The layers that stop only what they find wrong. An emergency also stops healthy sandboxes, so it has its own option:
/// a mistyped layer name cannot start one.
#[derive(Clone, Copy, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Layer {
    Scheduled,
    ByAge,
    Pressure,
    Reconcile,
}

impl Options {
    fn layer(&self) -> CleanupLayer {
        match self.layer {
            None if self.emergency => CleanupLayer::Emergency,
            None | Some(Layer::Scheduled) => CleanupLayer::Scheduled,
            Some(Layer::ByAge) => CleanupLayer::ByAge,
            Some(Layer::Pressure) => CleanupLayer::Pressure,
            Some(Layer::Reconcile) => CleanupLayer::Reconcile,
        }
    }
}

/// Number of past runs shown.
const RUNS_SHOWN: usize = 20;

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    if let Some(ms) = options.older_than {
        return stop::run(global, &stop::Options::older_than(ms, options.dry_run)).await;
    }
    let backend = Backend::open(global).await?;
    let code = if options.runs {
        show_runs(global, &backend).await
    } else {
        run_cleanup(global, &backend, options).await
    };
    backend.close().await?;
    code
}

async fn run_cleanup(
    global: &GlobalOptions,
    backend: &Backend,
    options: &Options,
) -> anyhow::Result<ExitCode> {
    let waiting = Progress::of(if options.dry_run { "scanning" } else { "scanning and stopping" });
    let done = backend.clean_up(options.layer(), options.dry_run).await;
    drop(waiting);
    let done = done?;
    if global.json {
        json_output::print(&done)?;
    } else {
        anstream::print!("{}", format_result(&done));
    }
    Ok(if done.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

/// Formats the result for a terminal, with colours.
fn format_result(done: &CleanupResult) -> String {
    let what = match done.layer {
        CleanupLayer::Scheduled | CleanupLayer::ByAge => "sandboxes to clean up",
        CleanupLayer::Pressure => "idle sandboxes",
        CleanupLayer::Reconcile => "sandboxes whose record and instance differ",
        CleanupLayer::Emergency => "sandboxes that are not critical",
    };
    let mut text = format!("Found {} {what} among {}\n", done.found.len(), done.scanned);
    let mut rows = Vec::new();
    for found in &done.found {
        let id = &found.sandbox_id;
        let reason = wire_name(&found.reason);
        let ended = done.ended.iter().find(|ended| ended.sandbox_id == *id);
        let failed = done.failed.iter().find(|failed| failed.sandbox_id == *id);
        rows.push(match (ended, failed) {
            (Some(ended), _) => {
                let cause = ended.cause.map_or_else(|| "already gone".to_owned(), |cause| wire_name(&cause));
                vec![StatusColour::Good.paint("Cleaned up"), id.clone(), reason, cause]
            }
            (None, Some(failed)) => {
                vec![
                    StatusColour::Bad.paint("Failed to cleanup"),
                    id.clone(),
                    reason,
                    escape_control(&failed.message),
                ]
            }
            (None, None) if done.dry_run => vec!["Would clean up".into(), id.clone(), reason],
            // Reconcile only starts the repair; the engine finishes it.
            (None, None) if done.layer == CleanupLayer::Reconcile => {
                vec!["Repairing".into(), id.clone(), reason]
            }
            (None, None) => continue,
        });
    }
    for kept in &done.kept {
        let why = kept.message.as_deref().map(escape_control).unwrap_or_default();
        rows.push(vec!["Kept".into(), kept.sandbox_id.clone(), wire_name(&kept.reason), why]);
    }
    text.push_str(&format_table(&rows));
    if done.pruned > 0 {
        let verb = if done.dry_run { "Would remove" } else { "Removed" };
        let (pruned, bytes) = (done.pruned, done.pruned_bytes);
        text.push_str(&format!(
            "{verb} {pruned} records, logs and artifacts past their retention, {bytes} bytes of files\n"
        ));
    }
    if !done.dry_run {
        let (ended, failed) = (done.ended.len(), done.failed.len());
        text.push_str(&format!(
            "Bulk cleanup completed: {ended} ended, {failed} failed in {} ms\n",
            done.took_ms
        ));
    }
    text
}

async fn show_runs(global: &GlobalOptions, backend: &Backend) -> anyhow::Result<ExitCode> {
    #[derive(Serialize)]
    struct CleanupHistory {
        schedule: Vec<CleanupSchedule>,
        runs: Vec<CleanupRun>,
    }
    let history = CleanupHistory {
        schedule: backend.cleanup_schedule().await?,
        runs: backend.cleanup_runs(RUNS_SHOWN).await?,
    };
    if global.json {
        json_output::print(&history)?;
    } else {
        anstream::print!("{}\n{}", schedule(&history.schedule), runs(&history.runs));
    }
    Ok(ExitCode::SUCCESS)
}

fn schedule(schedules: &[CleanupSchedule]) -> String {
    let mut rows = vec![["LAYER", "SCHEDULE", "NEXT", "LAST"].map(str::to_owned).to_vec()];
    for schedule in schedules {
        let last = schedule.last_run.as_ref();
        let last = last.map_or_else(
            || "never".to_owned(),
            |run| format!("{} {}", run.began_at, wire_name(&run.outcome)),
        );
        rows.push(vec![
            wire_name(&schedule.layer),
            schedule.schedule.clone(),
            schedule.next_at.clone(),
            last,
        ]);
    }
    format_table(&rows)
}

fn runs(runs: &[CleanupRun]) -> String {
    let head = ["BEGAN", "LAYER", "OUTCOME", "SCANNED", "FOUND", "ENDED", "FAILED", "KEPT", "TOOK"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for run in runs {
        rows.push(vec![
            run.began_at.clone(),
            wire_name(&run.layer),
            wire_name(&run.outcome),
            run.scanned.to_string(),
            run.found.to_string(),
            run.ended.to_string(),
            run.failed.to_string(),
            run.kept.to_string(),
            run.took_ms.map(|ms| format!("{ms} ms")).unwrap_or_default(),
        ]);
    }
    format_table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_records_are_reported_with_their_bytes() {
        let mut done = CleanupResult {
            layer: CleanupLayer::Pressure,
            dry_run: true,
            scanned: 2,
            found: vec![],
            ended: vec![],
            failed: vec![],
            kept: vec![],
            pruned: 3,
            pruned_bytes: 200,
            resources: vec![],
            not_measured: vec![],
            began_at: String::new(),
            took_ms: 1,
        };

        let dry = format_result(&done);
        done.dry_run = false;
        let text = format_result(&done);

        let what = "3 records, logs and artifacts past their retention, 200 bytes of files\n";
        assert!(dry.ends_with(&format!("Would remove {what}")), "{dry}");
        assert!(text.contains(&format!("\nRemoved {what}")), "{text}");
    }
}
