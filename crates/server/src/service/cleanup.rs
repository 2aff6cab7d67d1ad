//! Cleaning up as the API tells it: now, what it came to before, and when it is due.

use pinfold_api as api;
use pinfold_engine::{CleanupReport, Ended, Failed, Found, How, Kept, Layer, Spared, Why};
use pinfold_lifecycle::{Level, Resource, Stuck};
use pinfold_store::{CameTo, Chore, Chores, Figures, ItemFailed, Run};

use super::words::{self, moment};
use super::{Failure, Service, view};

impl Service {
    /// Does one layer now.
    pub async fn clean_up(&self, layer: api::CleanupLayer, how: How) -> Result<api::CleanupResult, Failure> {
        let report = self.host.cleaner.clean_up(asked_layer(layer), how).await;
        Ok(result(&report.map_err(Failure::unavailable)?))
    }

    /// The last runs of one layer or of all, the newest first.
    pub async fn cleanup_runs(
        &self,
        layer: Option<api::CleanupLayer>,
        limit: usize,
    ) -> Result<Vec<api::CleanupRun>, Failure> {
        let chore = layer.map(|layer| asked_layer(layer).chore());
        let runs = self.host.store.runs(chore, limit).await?;
        Ok(runs.iter().filter_map(run).collect())
    }

    pub async fn cleanup_schedule(&self) -> Result<Vec<api::CleanupTurn>, Failure> {
        let chores = self.host.store.chores().await?;
        Ok(chores.iter().filter_map(turn).collect())
    }
}

fn asked_layer(layer: api::CleanupLayer) -> Layer {
    match layer {
        api::CleanupLayer::Scheduled => Layer::Scheduled,
        api::CleanupLayer::ByAge => Layer::ByAge,
        api::CleanupLayer::Pressure => Layer::Pressure,
        api::CleanupLayer::Reconcile => Layer::Reconcile,
        api::CleanupLayer::Emergency => Layer::Emergency,
    }
}

fn told_layer(layer: Layer) -> api::CleanupLayer {
    match layer {
        Layer::Scheduled => api::CleanupLayer::Scheduled,
        Layer::ByAge => api::CleanupLayer::ByAge,
        Layer::Pressure => api::CleanupLayer::Pressure,
        Layer::Reconcile => api::CleanupLayer::Reconcile,
        Layer::Emergency => api::CleanupLayer::Emergency,
    }
}

/// None: another chore.
fn layer_of(chore: &str) -> Option<api::CleanupLayer> {
    let all = Layer::IN_TURN.into_iter().chain([Layer::Emergency]);
    all.into_iter().find(|layer| layer.chore() == chore).map(told_layer)
}

fn result(report: &CleanupReport) -> api::CleanupResult {
    api::CleanupResult {
        layer: told_layer(report.layer),
        dry_run: report.how == How::DryRun,
        scanned: report.scanned,
        found: report.found.iter().map(found).collect(),
        ended: report.ended.iter().map(ended).collect(),
        failed: report.failed.iter().map(failed).collect(),
        kept: report.kept.iter().map(kept).collect(),
        pruned: report.pruned,
        pruned_bytes: report.pruned_bytes,
        resources: report.levels.iter().map(level).collect(),
        not_measured: report.not_measured.iter().map(|it| resource(*it).to_owned()).collect(),
        began_at: moment(report.began_at),
        took_ms: report.took_ms,
    }
}

fn found(found: &Found) -> api::CleanupFound {
    let since = match found.why {
        Why::Stuck(Stuck::NeverReady { since } | Stuck::Failed { since } | Stuck::Silent { since, .. }) => {
            Some(since)
        }
        Why::Stuck(Stuck::Overdue { deadline, .. }) => Some(deadline),
        _ => None,
    };
    let reason = match found.why {
        Why::Stuck(Stuck::NeverReady { .. }) => api::CleanupReason::NeverReady,
        Why::Stuck(Stuck::Failed { .. }) => api::CleanupReason::Failed,
        Why::Stuck(Stuck::Overdue { .. }) => api::CleanupReason::Overdue,
        Why::Stuck(Stuck::Silent { .. }) => api::CleanupReason::Silent,
        Why::Idle => api::CleanupReason::Idle,
        Why::Emergency => api::CleanupReason::Emergency,
        Why::BodyWithoutRecord => api::CleanupReason::BodyWithoutRecord,
        Why::RecordWithoutBody => api::CleanupReason::RecordWithoutBody,
        Why::UnreadableRecord => api::CleanupReason::UnreadableRecord,
        Why::StatusDisagrees => api::CleanupReason::StatusDisagrees,
    };
    api::CleanupFound { sandbox_id: found.id.to_string(), reason, since: since.map(moment) }
}

fn ended(ended: &Ended) -> api::CleanupEnded {
    let proof = ended.proof.as_ref();
    api::CleanupEnded {
        sandbox_id: ended.id.to_string(),
        cause: proof.map(|(cause, _)| words::cause(*cause)),
        receipt: proof.map(|(cause, receipt)| view::receipt(ended.id, *cause, receipt)),
    }
}

fn failed(failed: &Failed) -> api::CleanupFailed {
    api::CleanupFailed { sandbox_id: failed.id.to_string(), message: failed.why.clone() }
}

fn kept(kept: &Kept) -> api::CleanupKept {
    let (reason, message) = match &kept.why {
        Spared::Critical => (api::KeptReason::Critical, None),
        Spared::NotMeasured { why } => (api::KeptReason::NotMeasured, Some(why.clone())),
        Spared::Recovered => (api::KeptReason::Recovered, None),
        Spared::Ending => (api::KeptReason::Ending, None),
        Spared::Quarantined => (api::KeptReason::Quarantined, None),
        Spared::Pooled => (api::KeptReason::Pooled, None),
        Spared::Unreadable => (api::KeptReason::Unreadable, None),
    };
    api::CleanupKept { sandbox_id: kept.id.to_string(), reason, message }
}

fn level(level: &Level) -> api::ResourceLevel {
    api::ResourceLevel { resource: resource(level.resource).to_owned(), taken: level.taken, of: level.of }
}

fn resource(resource: Resource) -> &'static str {
    match resource {
        Resource::Sandboxes => "sandboxes",
        Resource::Memory => "memory",
        Resource::Disk => "disk",
        Resource::Processes => "processes",
        Resource::HostMemory => "host_memory",
        Resource::HostDisk => "host_disk",
        Resource::HostProcesses => "host_processes",
    }
}

/// None: of another chore.
fn run(run: &Run) -> Option<api::CleanupRun> {
    let layer = layer_of(&run.chore)?;
    let ended = run.ended.as_ref();
    let (outcome, error) = match ended.map(|ended| &ended.came_to) {
        None => (api::CleanupOutcome::Running, None),
        Some(CameTo::Done(_)) => (api::CleanupOutcome::Done, None),
        Some(CameTo::Failed { error, .. }) => (api::CleanupOutcome::Failed, Some(error.clone())),
        Some(CameTo::Lost) => (api::CleanupOutcome::Lost, None),
    };
    let none = Figures::default();
    let figures = ended.and_then(|ended| ended.came_to.figures()).unwrap_or(&none);
    let failure = |failed: &ItemFailed| api::CleanupFailed {
        sandbox_id: failed.sandbox.to_string(),
        message: failed.why.clone(),
    };
    Some(api::CleanupRun {
        id: u64::try_from(run.id.0).unwrap_or(0),
        layer,
        due_at: run.due_at.map(moment),
        began_at: moment(run.began_at),
        ended_at: ended.map(|ended| moment(ended.at)),
        took_ms: ended.map(|ended| ended.at.ms_since(run.began_at)),
        outcome,
        error,
        node: run.node.to_string(),
        scanned: figures.scanned,
        found: figures.found,
        ended: figures.ended,
        failed: figures.failed,
        kept: figures.kept,
        pruned: figures.pruned,
        reasons: figures.reasons.clone(),
        found_ids: figures.found_ids.iter().map(ToString::to_string).collect(),
        failures: figures.failures.iter().map(failure).collect(),
    })
}

fn turn(chore: &Chore) -> Option<api::CleanupTurn> {
    Some(api::CleanupTurn {
        layer: layer_of(&chore.name)?,
        schedule: chore.schedule.clone(),
        next_at: moment(chore.due_at),
        held_by: chore.held.map(|held| held.by.to_string()),
        last_run: chore.last_run.as_ref().and_then(run),
    })
}
