//! Looking after sandboxes: whether they work, whether they are still wanted, and whether records and bodies agree.

use std::time::Duration;

use pinfold_api::{BodyRef, Comparison, ErrorCode, ProbeResult, ProbeState, Sandbox, StatusDisagreement};
use pinfold_engine::{Disagreement, Reconcile, ReconcileReport};
use pinfold_lifecycle::{ProbeFailure, Probed, SandboxId};
use pinfold_provider::Provider;

use super::words::{moment, state};
use super::{Failure, Service, body_of};

/// As long as a probe of the engine's own may take, and some.
const PROBE: Duration = Duration::from_secs(10);

impl Service {
    /// Tries commands, files and control of a sandbox now.
    pub async fn probe(&self, id: SandboxId) -> Result<ProbeResult, Failure> {
        let stored = self.stored(id).await?;
        if let Some(cause) = super::sandboxes::ending_for(&stored) {
            return Err(Failure::gone(cause));
        }
        if !matches!(stored.sandbox.lease, pinfold_lifecycle::Lease::Live(_)) {
            return Err(Failure::new(
                ErrorCode::WrongState,
                "the sandbox has no body that could be tried now",
            ));
        }
        let body = body_of(&stored);
        let probing = self.host.spans.probing(body, self.host.provider.probe(body));
        let probed = tokio::time::timeout(PROBE, probing).await;
        let no_answer = || format!("there was no answer within {} s", PROBE.as_secs());
        let probed = probed.unwrap_or_else(|_| Probed::Unknown { why: no_answer() });
        if let Probed::Failed(failure) = &probed {
            self.host.engine.seen_failing(id, failure).await?;
        }
        let (result, message) = told(probed);
        Ok(ProbeResult {
            sandbox_id: id.to_string(),
            generation: body.generation.0,
            result,
            message,
            at: moment(self.now()),
        })
    }

    /// Counts idleness anew. Its longest life stays what it is.
    pub async fn touch(&self, id: SandboxId) -> Result<Sandbox, Failure> {
        self.host.engine.keep_alive(id).await?;
        self.sandbox(id).await
    }

    /// Compares, repairs, and waits so long until that is done.
    pub async fn reconcile(&self, wait_ms: u64) -> Result<Comparison, Failure> {
        tracing::info!("Starting state reconciliation...");
        let found = self.compare(Reconcile::Repair).await?;
        let unsettled = self.wait_until_settled(wait_ms).await?;
        let stats = self.stats().await?;
        tracing::info!(
            records = found.records,
            bodies = found.bodies,
            unsettled,
            active = stats.active,
            provisioning = stats.provisioning,
            terminating = stats.terminating,
            total_created = stats.total_created,
            total_destroyed = stats.total_destroyed,
            "Reconciliation complete"
        );
        Ok(Comparison { unsettled: Some(unsettled), stats: Some(stats), ..found })
    }

    /// Compares everything that is recorded with everything that is there.
    pub async fn compare(&self, how: Reconcile) -> Result<Comparison, Failure> {
        let report = self.host.engine.reconcile(how).await.map_err(Failure::unavailable)?;
        tracing::info!("Orphaned DO records: {}", report.records_without_body.len());
        tracing::info!("Orphaned actual sandboxes: {}", report.bodies_without_record.len());
        let store = self.host.store.clone();
        // It reads every row there is.
        let disagreements = tokio::task::spawn_blocking(move || store.disagreements()).await;
        let disagreements = disagreements.map_err(Failure::internal)??;
        let contradicted = self.host.engine.disagreements(how).await.map_err(Failure::unavailable)?;
        let status_disagreements = contradicted.into_iter().map(disagreement).collect();
        Ok(Comparison { status_disagreements, ..comparison(report, how, disagreements) })
    }
}

fn told(probed: Probed) -> (ProbeState, Option<String>) {
    match probed {
        Probed::Passed => (ProbeState::Passed, None),
        Probed::Failed(failure) => (ProbeState::Failed, Some(said(failure))),
        Probed::Unknown { why } => (ProbeState::Unknown, Some(why)),
    }
}

fn disagreement(found: Disagreement) -> StatusDisagreement {
    let (probe, message) = told(found.probed);
    StatusDisagreement { sandbox_id: found.sandbox.to_string(), status: state(found.status), probe, message }
}

fn said(failure: ProbeFailure) -> String {
    match failure {
        ProbeFailure::Exec { why } => format!("commands: {why}"),
        ProbeFailure::Files { why } => format!("files: {why}"),
        ProbeFailure::Control { why } => format!("control: {why}"),
    }
}

fn comparison(report: ReconcileReport, how: Reconcile, disagreements: Vec<String>) -> Comparison {
    let ids = |ids: Vec<SandboxId>| -> Vec<String> { ids.iter().map(ToString::to_string).collect() };
    let bodies = report.bodies_without_record.iter();
    let bodies: Vec<_> = bodies
        .map(|body| BodyRef { sandbox_id: body.sandbox.to_string(), generation: body.generation.0 })
        .collect();
    let records = ids(report.records_without_body);
    Comparison {
        dry_run: how == Reconcile::DryRun,
        records: report.records as u64,
        bodies: report.bodies as u64,
        orphaned_bodies: bodies.clone(),
        bodies_without_record: bodies,
        orphaned_records: records.clone(),
        records_without_body: records,
        unreadable_records: ids(report.unreadable_records),
        unreadable_marks: report.unreadable_marks,
        disagreements,
        status_disagreements: Vec::new(),
        unsettled: None,
        stats: None,
    }
}
