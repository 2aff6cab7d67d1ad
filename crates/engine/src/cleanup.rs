//! Cleanup: ends stuck sandboxes, in independent layers (recorded state, probe of old instances, resource
//! pressure, reconciliation, emergency).
//!
//! `scheduled_runs.rs` runs the layers on their schedules; `sweep.rs` and `pressure.rs` find sandboxes;
//! `ending.rs` ends them; `report.rs` is the result; `observer.rs` passes it to metrics.

mod activity;
mod ending;
mod observer;
mod pressure;
mod report;
mod scheduled_runs;
mod sweep;

use std::sync::Arc;

use pinfold_lifecycle::{CleanupRules, Threshold, Timestamp};
use pinfold_store::{JobSchedule, RunOutcome, RunReport, StoreError, UnscheduledRun};

use crate::engine::{Engine, Inner};
use crate::{ReconcileError, ReconcileMode, Schedule};

pub use observer::CleanupObserver;
pub(crate) use observer::ObserverSlot;
pub use report::{
    CleanupLayer, CleanupReason, CleanupReport, EndedSandbox, FailedSandbox, FoundSandbox, KeepReason,
    KeptSandbox,
};

/// Schedules and thresholds of cleanup.
#[derive(Debug, Clone)]
pub struct CleanupConfig {
    pub rules: CleanupRules,
    pub scheduled: Schedule,
    pub by_age: Schedule,
    pub pressure: Schedule,
    pub reconcile: Schedule,
    /// Sandboxes ended concurrently.
    pub batch: usize,
    /// Time limit per sandbox.
    pub item_ms: u64,
    /// Utilisation from which a resource counts as scarce.
    pub threshold: Threshold,
    /// Under pressure, sandboxes idle for this long may be ended.
    pub idle_ms: u64,
    /// CPU sampling time for sandboxes without any other activity.
    pub sample_ms: u64,
    /// Delay after engine start before scheduled runs: most sandboxes that look stuck at start are handled by
    /// their deadlines.
    pub settle_ms: u64,
}

impl Default for CleanupConfig {
    fn default() -> Self {
        Self {
            rules: CleanupRules::default(),
            scheduled: Schedule::EVERY_5_MINUTES,
            by_age: Schedule::EVERY_15_MINUTES,
            pressure: Schedule::EVERY_MINUTE,
            reconcile: Schedule::HOURLY,
            batch: 50,
            item_ms: 60_000,
            threshold: Threshold::default(),
            idle_ms: 60_000,
            sample_ms: 1_000,
            settle_ms: 10_000,
        }
    }
}

impl CleanupConfig {
    /// None: the layer runs only on request.
    fn schedule_of(&self, layer: CleanupLayer) -> Option<&Schedule> {
        match layer {
            CleanupLayer::Scheduled => Some(&self.scheduled),
            CleanupLayer::ByAge => Some(&self.by_age),
            CleanupLayer::Pressure => Some(&self.pressure),
            CleanupLayer::Reconcile => Some(&self.reconcile),
            CleanupLayer::Emergency => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanupMode {
    /// Only report what would be done.
    DryRun,
    Act,
}

#[derive(Debug, thiserror::Error)]
pub enum CleanupError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Reconcile(#[from] ReconcileError),
}

/// Runs cleanup, on schedule and on request.
pub struct Cleaner {
    pub(crate) inner: Arc<Inner>,
    jobs: Arc<dyn JobSchedule>,
    /// Start of this engine, since when it enforces deadlines.
    began_at: Timestamp,
}

impl Engine {
    /// Starts the scheduled layers. They run as long as the engine lives.
    pub fn start_cleanup(
        &self,
        jobs: Arc<dyn JobSchedule>,
        observer: Option<Arc<dyn CleanupObserver>>,
    ) -> Arc<Cleaner> {
        let inner = self.inner.clone();
        let began_at = inner.clock.now();
        if let Some(observer) = observer {
            inner.cleanup_observer.set(observer);
        }
        let cleaner = Arc::new(Cleaner { inner, jobs, began_at });
        for layer in CleanupLayer::SCHEDULED_LAYERS {
            self.inner.effect_tasks.spawn_loop(cleaner.clone().keep(layer));
        }
        cleaner
    }
}

impl Cleaner {
    /// Runs one layer now. The run is recorded like a scheduled one.
    pub async fn clean_up(
        &self,
        layer: CleanupLayer,
        mode: CleanupMode,
    ) -> Result<CleanupReport, CleanupError> {
        let began_at = self.inner.clock.now();
        let report = self.run(layer, mode).await;
        if mode == CleanupMode::Act {
            let run = UnscheduledRun {
                job: layer.job_name().to_owned(),
                node: self.inner.node,
                started_at: began_at,
                ended_at: self.inner.clock.now(),
                outcome: outcome(&report),
            };
            self.jobs.add_run(run).await?;
        }
        report
    }

    /// Runs a layer and logs its result.
    async fn run(&self, layer: CleanupLayer, mode: CleanupMode) -> Result<CleanupReport, CleanupError> {
        let began_at = self.inner.clock.now();
        let mut report = CleanupReport::begin(layer, mode, began_at);
        let done = match layer {
            CleanupLayer::Scheduled | CleanupLayer::ByAge => self.end_what_is_stuck(&mut report).await,
            CleanupLayer::Pressure => self.relieve(&mut report).await,
            CleanupLayer::Reconcile => self.reconcile(&mut report).await,
            CleanupLayer::Emergency => self.end_all(&mut report).await,
        };
        let took_ms = self.inner.clock.now().ms_since(began_at);
        report.took_ms = took_ms;
        match &done {
            Ok(()) => report.log_end(),
            Err(error) => {
                let error_chain = error as &dyn std::error::Error;
                tracing::error!(layer = layer.word(), error = error_chain, "Cleanup job failed");
            }
        }
        let report = done.map(|()| report);
        if mode == CleanupMode::Act {
            self.inner.cleanup_observer.ran(layer, took_ms, &outcome(&report));
        }
        report
    }

    async fn end_what_is_stuck(&self, report: &mut CleanupReport) -> Result<(), CleanupError> {
        report.log_start();
        self.sweep(report).await?;
        report.log_found();
        self.end_found(report).await;
        if report.layer == CleanupLayer::Scheduled {
            report.pruned = self.inner.prune(report.mode).await?;
        }
        Ok(())
    }

    async fn end_all(&self, report: &mut CleanupReport) -> Result<(), CleanupError> {
        report.log_start();
        self.sweep_all(report).await?;
        report.log_found();
        self.end_found(report).await;
        Ok(())
    }

    async fn reconcile(&self, report: &mut CleanupReport) -> Result<(), CleanupError> {
        report.log_start();
        let mode = if report.acts() { ReconcileMode::Repair } else { ReconcileMode::DryRun };
        let compared = self.inner.clone().reconcile(mode).await?;
        report.add_reconcile_report(&compared);
        report.add_status_mismatches(&self.inner.status_mismatches(mode).await?);
        report.log_found();
        Ok(())
    }
}

fn outcome(report: &Result<CleanupReport, CleanupError>) -> RunOutcome {
    match report {
        Ok(report) => RunOutcome::Done(report.run_report()),
        Err(error) => RunOutcome::Failed { error: error_chain(error), report: RunReport::default() },
    }
}

/// An error with its chain of causes.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut error_chain = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        error_chain = format!("{error_chain}: {cause}");
        source = cause.source();
    }
    error_chain
}
