//! Ends what is stuck, in layers that do not rely on each other: by what is recorded, by what an old body answers, by
//! what runs short, and by comparing records with bodies. `cleanup/turns.rs` runs them at their times,
//! `cleanup/sweep.rs` and `cleanup/pressure.rs` find, `cleanup/ending.rs` ends, `cleanup/report.rs` tells whoever asked
//! and `cleanup/witness.rs` whoever counts.

mod activity;
mod ending;
mod pressure;
mod report;
mod sweep;
mod turns;
mod witness;

use std::sync::Arc;

use pinfold_lifecycle::{CleanupRules, Threshold, Timestamp};
use pinfold_store::{CameTo, Chores, Figures, NewRun, StoreError};

use crate::engine::{Engine, Inner};
use crate::{Reconcile, ReconcileError, Schedule};

pub use report::{CleanupReport, Ended, Failed, Found, Kept, Layer, Spared, Why};
pub(crate) use witness::Stand;
pub use witness::Witness;

/// When what is done, and by which measure.
#[derive(Debug, Clone)]
pub struct CleanupConfig {
    pub rules: CleanupRules,
    pub scheduled: Schedule,
    pub by_age: Schedule,
    pub pressure: Schedule,
    pub reconcile: Schedule,
    /// So many are ended side by side.
    pub batch: usize,
    /// How long each of them may take.
    pub item_ms: u64,
    /// From which share on a resource is scarce.
    pub threshold: Threshold,
    /// Under pressure, whatever did nothing for so long may go.
    pub idle_ms: u64,
    /// How long processor time is watched where nothing else shows a sign of life.
    pub sample_ms: u64,
    /// How long an engine sees to deadlines before it takes a turn: most of what seems stuck at its beginning is not.
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
    /// None: it is only done where somebody asks for it.
    fn schedule_of(&self, layer: Layer) -> Option<&Schedule> {
        match layer {
            Layer::Scheduled => Some(&self.scheduled),
            Layer::ByAge => Some(&self.by_age),
            Layer::Pressure => Some(&self.pressure),
            Layer::Reconcile => Some(&self.reconcile),
            Layer::Emergency => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Only say what would be done.
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

/// Cleans up, at its times and when asked to.
pub struct Cleaner {
    pub(crate) inner: Arc<Inner>,
    chores: Arc<dyn Chores>,
    /// Since when this engine sees to deadlines.
    began_at: Timestamp,
}

impl Engine {
    /// Sets the layers of cleanup going, each at its own times, for as long as this engine lives.
    pub fn keep_clean(&self, chores: Arc<dyn Chores>, witness: Option<Arc<dyn Witness>>) -> Arc<Cleaner> {
        let inner = self.inner.clone();
        let began_at = inner.clock.now();
        if let Some(witness) = witness {
            inner.stand.call(witness);
        }
        let cleaner = Arc::new(Cleaner { inner, chores, began_at });
        for layer in Layer::IN_TURN {
            self.inner.errands.spawn_loop(cleaner.clone().keep(layer));
        }
        cleaner
    }
}

impl Cleaner {
    /// Does one layer now, because somebody asks for it. That is remembered like a turn of it.
    pub async fn clean_up(&self, layer: Layer, how: How) -> Result<CleanupReport, CleanupError> {
        let began_at = self.inner.clock.now();
        let report = self.run(layer, how).await;
        if how == How::Act {
            let run = NewRun {
                chore: layer.chore().to_owned(),
                node: self.inner.node,
                began_at,
                ended_at: self.inner.clock.now(),
                came_to: came_to(&report),
            };
            self.chores.add_run(run).await?;
        }
        report
    }

    /// Always tells in the log what it came to.
    async fn run(&self, layer: Layer, how: How) -> Result<CleanupReport, CleanupError> {
        let began_at = self.inner.clock.now();
        let mut report = CleanupReport::begin(layer, how, began_at);
        let done = match layer {
            Layer::Scheduled | Layer::ByAge => self.end_what_is_stuck(&mut report).await,
            Layer::Pressure => self.relieve(&mut report).await,
            Layer::Reconcile => self.reconcile(&mut report).await,
            Layer::Emergency => self.end_all(&mut report).await,
        };
        let took_ms = self.inner.clock.now().ms_since(began_at);
        report.took_ms = took_ms;
        match &done {
            Ok(()) => report.tell_end(),
            Err(error) => {
                let told = error as &dyn std::error::Error;
                tracing::error!(layer = layer.word(), error = told, "Cleanup job failed");
            }
        }
        let report = done.map(|()| report);
        if how == How::Act {
            self.inner.stand.ran(layer, took_ms, &came_to(&report));
        }
        report
    }

    async fn end_what_is_stuck(&self, report: &mut CleanupReport) -> Result<(), CleanupError> {
        report.tell_beginning();
        self.sweep(report).await?;
        report.tell_found();
        self.end_found(report).await;
        if report.layer == Layer::Scheduled {
            report.pruned = self.inner.prune(report.how).await?;
        }
        Ok(())
    }

    async fn end_all(&self, report: &mut CleanupReport) -> Result<(), CleanupError> {
        report.tell_beginning();
        self.sweep_all(report).await?;
        report.tell_found();
        self.end_found(report).await;
        Ok(())
    }

    async fn reconcile(&self, report: &mut CleanupReport) -> Result<(), CleanupError> {
        report.tell_beginning();
        let how = if report.acts() { Reconcile::Repair } else { Reconcile::DryRun };
        let compared = self.inner.clone().reconcile(how).await?;
        report.take_in(&compared);
        report.take_in_disagreements(&self.inner.disagreements(how).await?);
        report.tell_found();
        Ok(())
    }
}

fn came_to(report: &Result<CleanupReport, CleanupError>) -> CameTo {
    match report {
        Ok(report) => CameTo::Done(report.figures()),
        Err(error) => CameTo::Failed { error: told(error), figures: Figures::default() },
    }
}

/// With its causes.
fn told(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        told = format!("{told}: {cause}");
        source = cause.source();
    }
    told
}
