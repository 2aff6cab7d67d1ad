//! Probing a sandbox, extending its idle time, and the consistency check between records and instances.

use std::time::Duration;

use pinfold_api::{
    self as api, ConsistencyReport, ErrorCode, InstanceRef, ProbeState, Sandbox, StatusDisagreement,
};
use pinfold_engine::{ReconcileMode, ReconcileReport, StatusMismatch};
use pinfold_lifecycle::{ProbeFailure, ProbeResult, SandboxId};

use super::convert::{rfc3339, state};
use super::{Failure, Service, instance_of};

/// Longer than the engine's own probe timeout.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

impl Service {
    /// Probes exec, files and control of a sandbox now.
    pub async fn probe(&self, id: SandboxId) -> Result<api::ProbeResult, Failure> {
        let stored = self.stored(id).await?;
        if let Some(cause) = super::sandboxes::end_cause(&stored) {
            return Err(Failure::gone(cause));
        }
        if !matches!(stored.sandbox.lease, pinfold_lifecycle::Lease::Live(_)) {
            return Err(Failure::new(
                ErrorCode::WrongState,
                "the sandbox has no instance that can be probed now",
            ));
        }
        let instance = instance_of(&stored);
        let probing = self.host.spans.probing(instance, self.host.provider.probe(instance));
        let probed = tokio::time::timeout(PROBE_TIMEOUT, probing).await;
        let no_answer = || format!("no answer within {} s", PROBE_TIMEOUT.as_secs());
        let probed = probed.unwrap_or_else(|_| ProbeResult::Unknown { why: no_answer() });
        if let ProbeResult::Failed(failure) = &probed {
            self.host.engine.report_probe_failure(id, failure).await?;
        }
        let (result, message) = probe_view(probed);
        Ok(api::ProbeResult {
            sandbox_id: id.to_string(),
            generation: instance.generation.0,
            result,
            message,
            at: rfc3339(self.now()),
        })
    }

    /// Restarts the idle timer. The maximum life does not change.
    pub async fn touch(&self, id: SandboxId) -> Result<Sandbox, Failure> {
        self.host.engine.keep_alive(id).await?;
        self.sandbox(id).await
    }

    /// Compares records with instances, repairs differences, and waits until the repair is done or the time is up.
    pub async fn reconcile(&self, wait_ms: u64) -> Result<ConsistencyReport, Failure> {
        tracing::info!("Starting state reconciliation...");
        crate::temporary_files::remove_ownerless(&self.host.data);
        let found = self.compare(ReconcileMode::Repair).await?;
        let unsettled = self.wait_until_settled(wait_ms).await?;
        let stats = self.stats().await?;
        tracing::info!(
            records = found.records,
            instances = found.instances,
            unsettled,
            active = stats.active,
            provisioning = stats.provisioning,
            terminating = stats.terminating,
            total_created = stats.total_created,
            total_destroyed = stats.total_destroyed,
            "Reconciliation complete"
        );
        Ok(ConsistencyReport { unsettled: Some(unsettled), stats: Some(stats), ..found })
    }

    /// Compares all records with all instances.
    pub async fn compare(&self, how: ReconcileMode) -> Result<ConsistencyReport, Failure> {
        let report = self.host.engine.reconcile(how).await.map_err(Failure::unavailable)?;
        tracing::info!("Orphaned DO records: {}", report.records_without_instance.len());
        tracing::info!("Orphaned actual sandboxes: {}", report.instances_without_record.len());
        let store = self.host.store.clone();
        // Blocking: it reads every row.
        let disagreements = tokio::task::spawn_blocking(move || store.inconsistencies()).await;
        let disagreements = disagreements.map_err(Failure::internal)??;
        let status_disagreements =
            self.host.engine.status_mismatches(how).await.map_err(Failure::unavailable)?;
        let status_disagreements = status_disagreements.into_iter().map(disagreement).collect();
        Ok(ConsistencyReport { status_disagreements, ..report_view(report, how, disagreements) })
    }
}

fn probe_view(probed: ProbeResult) -> (ProbeState, Option<String>) {
    match probed {
        ProbeResult::Passed => (ProbeState::Passed, None),
        ProbeResult::Failed(failure) => (ProbeState::Failed, Some(failure_text(failure))),
        ProbeResult::Unknown { why } => (ProbeState::Unknown, Some(why)),
    }
}

fn disagreement(found: StatusMismatch) -> StatusDisagreement {
    let (probe, message) = probe_view(found.probed);
    StatusDisagreement { sandbox_id: found.sandbox.to_string(), status: state(found.status), probe, message }
}

fn failure_text(failure: ProbeFailure) -> String {
    match failure {
        ProbeFailure::Exec { why } => format!("commands: {why}"),
        ProbeFailure::Files { why } => format!("files: {why}"),
        ProbeFailure::Control { why } => format!("control: {why}"),
    }
}

fn report_view(report: ReconcileReport, how: ReconcileMode, disagreements: Vec<String>) -> ConsistencyReport {
    let ids = |ids: Vec<SandboxId>| -> Vec<String> { ids.iter().map(ToString::to_string).collect() };
    let instances: Vec<_> = report
        .instances_without_record
        .iter()
        .map(|it| InstanceRef { sandbox_id: it.sandbox.to_string(), generation: it.generation.0 })
        .collect();
    let records = ids(report.records_without_instance);
    ConsistencyReport {
        dry_run: how == ReconcileMode::DryRun,
        records: report.records as u64,
        instances: report.instances as u64,
        orphaned_instances: instances.clone(),
        instances_without_record: instances,
        orphaned_records: records.clone(),
        records_without_instance: records,
        unreadable_records: ids(report.unreadable_records),
        unreadable_markers: report.unreadable_names,
        disagreements,
        status_disagreements: Vec::new(),
        unsettled: None,
        stats: None,
    }
}
