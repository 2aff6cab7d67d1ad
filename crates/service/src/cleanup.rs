//! The cleanup API: run a layer now, list past runs, show the schedule.

use pinfold_api as api;
use pinfold_engine::{
    CleanupLayer, CleanupMode, CleanupReason, CleanupReport, EndedSandbox, FailedSandbox, FoundSandbox,
    KeepReason, KeptSandbox,
};
use pinfold_lifecycle::{Resource, ResourceLevel, Stuck};
use pinfold_store::{ItemFailure, JobRun, RunOutcome, RunReport, ScheduledJob};

use super::convert::{self, rfc3339};
use super::{Failure, Service, view};

impl Service {
    /// Runs one cleanup layer now.
    pub async fn clean_up(
        &self,
        layer: api::CleanupLayer,
        how: CleanupMode,
    ) -> Result<api::CleanupResult, Failure> {
        let report = self.host.cleaner.clean_up(layer_from_api(layer), how).await;
        Ok(result(&report.map_err(Failure::unavailable)?))
    }

    /// The last runs of one layer or of all, newest first.
    pub async fn cleanup_runs(
        &self,
        layer: Option<api::CleanupLayer>,
        limit: usize,
    ) -> Result<Vec<api::CleanupRun>, Failure> {
        let job = layer.map(|layer| layer_from_api(layer).job_name());
        let runs = self.host.store.runs(job, limit).await?;
        Ok(runs.iter().filter_map(run).collect())
    }

    pub async fn cleanup_schedule(&self) -> Result<Vec<api::CleanupSchedule>, Failure> {
        let jobs = self.host.store.jobs().await?;
        Ok(jobs.iter().filter_map(schedule).collect())
    }
}

fn layer_from_api(layer: api::CleanupLayer) -> CleanupLayer {
    match layer {
        api::CleanupLayer::Scheduled => CleanupLayer::Scheduled,
        api::CleanupLayer::ByAge => CleanupLayer::ByAge,
        api::CleanupLayer::Pressure => CleanupLayer::Pressure,
        api::CleanupLayer::Reconcile => CleanupLayer::Reconcile,
        api::CleanupLayer::Emergency => CleanupLayer::Emergency,
    }
}

fn layer_to_api(layer: CleanupLayer) -> api::CleanupLayer {
    match layer {
        CleanupLayer::Scheduled => api::CleanupLayer::Scheduled,
        CleanupLayer::ByAge => api::CleanupLayer::ByAge,
        CleanupLayer::Pressure => api::CleanupLayer::Pressure,
        CleanupLayer::Reconcile => api::CleanupLayer::Reconcile,
        CleanupLayer::Emergency => api::CleanupLayer::Emergency,
    }
}

/// The layer of a scheduled job. None: it is not a cleanup job.
fn layer_of(job: &str) -> Option<api::CleanupLayer> {
    let all = CleanupLayer::SCHEDULED_LAYERS.into_iter().chain([CleanupLayer::Emergency]);
    all.into_iter().find(|layer| layer.job_name() == job).map(layer_to_api)
}

fn result(report: &CleanupReport) -> api::CleanupResult {
    api::CleanupResult {
        layer: layer_to_api(report.layer),
        dry_run: report.mode == CleanupMode::DryRun,
        scanned: report.scanned,
        found: report.found.iter().map(found).collect(),
        ended: report.ended.iter().map(ended).collect(),
        failed: report.failed.iter().map(failed).collect(),
        kept: report.kept.iter().map(kept).collect(),
        pruned: report.pruned,
        pruned_bytes: report.pruned_bytes,
        resources: report.levels.iter().map(level).collect(),
        not_measured: report.not_measured.iter().map(|it| resource(*it).to_owned()).collect(),
        began_at: rfc3339(report.began_at),
        took_ms: report.took_ms,
    }
}

fn found(found: &FoundSandbox) -> api::CleanupFound {
    let since = match found.why {
        CleanupReason::Stuck(
            Stuck::NeverReady { since } | Stuck::Failed { since } | Stuck::Silent { since, .. },
        ) => Some(since),
        CleanupReason::Stuck(Stuck::Overdue { deadline, .. }) => Some(deadline),
        _ => None,
    };
    let reason = match found.why {
        CleanupReason::Stuck(Stuck::NeverReady { .. }) => api::CleanupReason::NeverReady,
        CleanupReason::Stuck(Stuck::Failed { .. }) => api::CleanupReason::Failed,
        CleanupReason::Stuck(Stuck::Overdue { .. }) => api::CleanupReason::Overdue,
        CleanupReason::Stuck(Stuck::Silent { .. }) => api::CleanupReason::Silent,
        CleanupReason::Idle => api::CleanupReason::Idle,
        CleanupReason::Emergency => api::CleanupReason::Emergency,
        CleanupReason::InstanceWithoutRecord => api::CleanupReason::InstanceWithoutRecord,
        CleanupReason::RecordWithoutInstance => api::CleanupReason::RecordWithoutInstance,
        CleanupReason::UnreadableRecord => api::CleanupReason::UnreadableRecord,
        CleanupReason::StatusDisagrees => api::CleanupReason::StatusDisagrees,
    };
    api::CleanupFound { sandbox_id: found.id.to_string(), reason, since: since.map(rfc3339) }
}

fn ended(ended: &EndedSandbox) -> api::CleanupEnded {
    let proof = ended.proof.as_ref();
    api::CleanupEnded {
        sandbox_id: ended.id.to_string(),
        cause: proof.map(|(cause, _)| convert::cause(*cause)),
        receipt: proof.map(|(cause, receipt)| view::receipt(ended.id, *cause, receipt)),
    }
}

fn failed(failed: &FailedSandbox) -> api::CleanupFailed {
    api::CleanupFailed { sandbox_id: failed.id.to_string(), message: failed.why.clone() }
}

fn kept(kept: &KeptSandbox) -> api::CleanupKept {
    let (reason, message) = match &kept.why {
        KeepReason::Critical => (api::KeptReason::Critical, None),
        KeepReason::NotMeasured { why } => (api::KeptReason::NotMeasured, Some(why.clone())),
        KeepReason::Recovered => (api::KeptReason::Recovered, None),
        KeepReason::Ending => (api::KeptReason::Ending, None),
        KeepReason::Quarantined => (api::KeptReason::Quarantined, None),
        KeepReason::Pooled => (api::KeptReason::Pooled, None),
        KeepReason::Unreadable => (api::KeptReason::Unreadable, None),
    };
    api::CleanupKept { sandbox_id: kept.id.to_string(), reason, message }
}

fn level(level: &ResourceLevel) -> api::ResourceLevel {
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

/// One past run. None: it is not a cleanup run.
fn run(run: &JobRun) -> Option<api::CleanupRun> {
    let layer = layer_of(&run.job)?;
    let ended = run.ended.as_ref();
    let (outcome, error) = match ended.map(|ended| &ended.outcome) {
        None => (api::CleanupOutcome::Running, None),
        Some(RunOutcome::Done(_)) => (api::CleanupOutcome::Done, None),
        Some(RunOutcome::Failed { error, .. }) => (api::CleanupOutcome::Failed, Some(error.clone())),
        Some(RunOutcome::Lost) => (api::CleanupOutcome::Lost, None),
    };
    let none = RunReport::default();
    let report = ended.and_then(|ended| ended.outcome.report()).unwrap_or(&none);
    let failure = |failed: &ItemFailure| api::CleanupFailed {
        sandbox_id: failed.sandbox.to_string(),
        message: failed.error.clone(),
    };
    Some(api::CleanupRun {
        id: u64::try_from(run.id.0).unwrap_or(0),
        layer,
        due_at: run.due_at.map(rfc3339),
        began_at: rfc3339(run.started_at),
        ended_at: ended.map(|ended| rfc3339(ended.at)),
        took_ms: ended.map(|ended| ended.at.ms_since(run.started_at)),
        outcome,
        error,
        node: run.node.to_string(),
        scanned: report.scanned,
        found: report.found,
        ended: report.ended,
        failed: report.failed,
        kept: report.kept,
        pruned: report.pruned,
        reasons: report.reasons.clone(),
        found_ids: report.found_ids.iter().map(ToString::to_string).collect(),
        failures: report.failures.iter().map(failure).collect(),
    })
}

fn schedule(job: &ScheduledJob) -> Option<api::CleanupSchedule> {
    Some(api::CleanupSchedule {
        layer: layer_of(&job.name)?,
        schedule: job.schedule.clone(),
        next_at: rfc3339(job.due_at),
        held_by: job.holder.map(|held| held.node.to_string()),
        last_run: job.last_run.as_ref().and_then(run),
    })
}
