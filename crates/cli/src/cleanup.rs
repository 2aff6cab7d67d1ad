//! `pinfold cleanup`: ends what one layer of cleanup finds, or in an emergency all that is not critical, and says what
//! became of it.

use std::process::ExitCode;

use pinfold_api::{CleanupLayer, CleanupResult, CleanupRun, CleanupTurn};
use serde::Serialize;

use crate::Place;
use crate::colour::Mood;
use crate::documents::{self, word};
use crate::exit;
use crate::plane::Plane;
use crate::progress::Progress;
use crate::table::{harmless, lay_out};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to look for, by default `scheduled`: `scheduled` what is stuck, `by_age` that and whatever is old and does
    /// not answer, `pressure` what can be spared where something runs short, `reconcile` records and bodies that differ
    #[arg(long, value_name = "NAME", value_enum, hide_possible_values = true, conflicts_with = "emergency")]
    layer: Option<Layer>,
    /// End every sandbox at once that is not critical, stuck or not
    #[arg(long)]
    emergency: bool,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Show when each layer of cleanup is due and what the last runs came to, and do nothing
    #[arg(long, conflicts_with_all = ["layer", "emergency", "dry_run"])]
    runs: bool,
}

/// The layers that end only what they find amiss. An emergency ends what is well too, and is asked for by no name that
/// might be mistyped.
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

/// Of the last ones.
const RUNS_SHOWN: usize = 20;

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    let plane = Plane::open(place).await?;
    let code = if options.runs { show(place, &plane).await } else { clean(place, &plane, options).await };
    plane.close().await?;
    code
}

async fn clean(place: &Place, plane: &Plane, options: &Options) -> anyhow::Result<ExitCode> {
    let waiting = Progress::of(if options.dry_run { "looking" } else { "looking, and ending what is found" });
    let done = plane.clean_up(options.layer(), options.dry_run).await;
    drop(waiting);
    let done = done?;
    if place.json {
        documents::print(&done)?;
    } else {
        anstream::print!("{}", told(&done));
    }
    Ok(if done.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

/// For people, in colours.
fn told(done: &CleanupResult) -> String {
    let what = match done.layer {
        CleanupLayer::Scheduled | CleanupLayer::ByAge => "stuck sandboxes",
        CleanupLayer::Pressure => "sandboxes that can be spared",
        CleanupLayer::Reconcile => "sandboxes whose record and body differ",
        CleanupLayer::Emergency => "sandboxes that are not critical",
    };
    let mut text = format!("Found {} {what} among {}\n", done.found.len(), done.scanned);
    let mut rows = Vec::new();
    for found in &done.found {
        let id = &found.sandbox_id;
        let reason = word(&found.reason);
        let ended = done.ended.iter().find(|ended| ended.sandbox_id == *id);
        let failed = done.failed.iter().find(|failed| failed.sandbox_id == *id);
        rows.push(match (ended, failed) {
            (Some(ended), _) => {
                let cause = ended.cause.map_or_else(|| "already gone".to_owned(), |cause| word(&cause));
                vec![Mood::Good.paint("Cleaned up"), id.clone(), reason, cause]
            }
            (None, Some(failed)) => {
                vec![Mood::Bad.paint("Failed to cleanup"), id.clone(), reason, harmless(&failed.message)]
            }
            (None, None) if done.dry_run => vec!["Would clean up".into(), id.clone(), reason],
            // Reconciling only begins what follows, and sees to it.
            (None, None) if done.layer == CleanupLayer::Reconcile => {
                vec!["Is seen to".into(), id.clone(), reason]
            }
            (None, None) => continue,
        });
    }
    for kept in &done.kept {
        let why = kept.message.as_deref().map(harmless).unwrap_or_default();
        rows.push(vec!["Kept".into(), kept.sandbox_id.clone(), word(&kept.reason), why]);
    }
    text.push_str(&lay_out(&rows));
    if done.pruned > 0 {
        let verb = if done.dry_run { "Would remove" } else { "Removed" };
        let (pruned, bytes) = (done.pruned, done.pruned_bytes);
        text.push_str(&format!(
            "{verb} {pruned} records, logs and artifacts past their time, {bytes} bytes of files\n"
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

async fn show(place: &Place, plane: &Plane) -> anyhow::Result<ExitCode> {
    #[derive(Serialize)]
    struct Shown {
        schedule: Vec<CleanupTurn>,
        runs: Vec<CleanupRun>,
    }
    let shown =
        Shown { schedule: plane.cleanup_schedule().await?, runs: plane.cleanup_runs(RUNS_SHOWN).await? };
    if place.json {
        documents::print(&shown)?;
    } else {
        anstream::print!("{}\n{}", schedule(&shown.schedule), runs(&shown.runs));
    }
    Ok(ExitCode::SUCCESS)
}

fn schedule(turns: &[CleanupTurn]) -> String {
    let mut rows = vec![["LAYER", "SCHEDULE", "NEXT", "LAST"].map(str::to_owned).to_vec()];
    for turn in turns {
        let last = turn.last_run.as_ref();
        let last =
            last.map_or_else(|| "never".to_owned(), |run| format!("{} {}", run.began_at, word(&run.outcome)));
        rows.push(vec![word(&turn.layer), turn.schedule.clone(), turn.next_at.clone(), last]);
    }
    lay_out(&rows)
}

fn runs(runs: &[CleanupRun]) -> String {
    let head = ["BEGAN", "LAYER", "OUTCOME", "SCANNED", "FOUND", "ENDED", "FAILED", "KEPT", "TOOK"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for run in runs {
        rows.push(vec![
            run.began_at.clone(),
            word(&run.layer),
            word(&run.outcome),
            run.scanned.to_string(),
            run.found.to_string(),
            run.ended.to_string(),
            run.failed.to_string(),
            run.kept.to_string(),
            run.took_ms.map(|ms| format!("{ms} ms")).unwrap_or_default(),
        ]);
    }
    lay_out(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_removed_or_would_be_is_told_with_its_bytes() {
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

        let foretold = told(&done);
        done.dry_run = false;
        let said = told(&done);

        let what = "3 records, logs and artifacts past their time, 200 bytes of files\n";
        assert!(foretold.ends_with(&format!("Would remove {what}")), "{foretold}");
        assert!(said.contains(&format!("\nRemoved {what}")), "{said}");
    }
}
