//! Scheduled cleanup runs. Each run is claimed in the store, so that it happens once however many engines share
//! the store. A failed run does not prevent the next one.

use std::sync::Arc;

use pinfold_lifecycle::Timestamp;
use pinfold_store::{ClaimRun, RunClaim, RunOutcome, RunReport, ScheduledJob, StoreError};
use tokio::task::JoinSet;

use super::{Cleaner, CleanupLayer, CleanupMode, outcome};
use crate::Schedule;

/// Lifetime of a claim. The running engine extends it; after it expires other engines take the run over.
const CLAIM_MS: u64 = 180_000;
/// Upper bound of the sleep: after it, claims dropped or schedules changed by other engines are noticed.
const MAX_SLEEP_MS: u64 = 30_000;
/// Retry delay after a failure, or while another engine holds a due run.
const RETRY_MS: u64 = 1_000;
/// A due run not claimed for this long is reported as late. Every engine checks more often.
const LATE_MS: u64 = 120_000;

impl Cleaner {
    pub(super) async fn keep(self: Arc<Self>, layer: CleanupLayer) {
        let Some(schedule) = self.inner.config.cleanup.schedule_of(layer).cloned() else { return };
        let clock = self.inner.clock.clone();
        loop {
            let next = match self.clone().run_if_due(layer, &schedule).await {
                Ok(due_at) => due_at,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(layer = layer.word(), error, "Cleanup job failed");
                    clock.now()
                }
            };
            let now = clock.now();
            let soon = now.after_ms(RETRY_MS);
            clock.sleep_until(next.max(soon).max(self.active_from()).min(now.after_ms(MAX_SLEEP_MS))).await;
        }
    }

    /// The jobs of the scheduled layers, by name, with their schedules.
    pub fn expected_jobs(&self) -> impl Iterator<Item = (&'static str, &Schedule)> {
        let config = &self.inner.config.cleanup;
        CleanupLayer::SCHEDULED_LAYERS
            .into_iter()
            .filter_map(|layer| Some((layer.job_name(), config.schedule_of(layer)?)))
    }

    /// Runs the layer if it is due. Returns the next due time.
    async fn run_if_due(
        self: Arc<Self>,
        layer: CleanupLayer,
        schedule: &Schedule,
    ) -> Result<Timestamp, StoreError> {
        let now = self.inner.clock.now();
        let stored = self.jobs.jobs().await?.into_iter().find(|job| job.name == layer.job_name());
        let Some(job) = stored.filter(|job| job.schedule == schedule.as_str()) else {
            let due_at = schedule.next_after(now);
            self.jobs.plan_job(layer.job_name(), schedule.as_str(), due_at).await?;
            return Ok(due_at);
        };
        if now < self.active_from() || !is_free_and_due(&job, now) {
            return Ok(job.due_at);
        }
        let request =
            ClaimRun { job: job.name, node: self.inner.node, now, expires_at: now.after_ms(CLAIM_MS) };
        match self.jobs.claim_run(request).await? {
            Some(claim) => {
                // The previous holder's claim expired.
                if job.holder.is_some() {
                    self.inner.cleanup_observer.lost(layer);
                }
                self.run_claimed(layer, schedule, claim).await
            }
            None => Ok(job.due_at),
        }
    }

    /// Problems with scheduled runs, one line each.
    pub async fn schedule_problems(&self) -> Result<Vec<String>, StoreError> {
        let now = self.inner.clock.now();
        let mut schedule_problems = Vec::new();
        for job in self.jobs.jobs().await? {
            let name = &job.name;
            let late_ms = now.ms_since(job.due_at.max(self.active_from()));
            if late_ms >= LATE_MS && is_free_and_due(&job, now) {
                schedule_problems
                    .push(format!("{name} is overdue by {} s", now.ms_since(job.due_at) / 1_000));
            }
            let last = job.last_run.as_ref().and_then(|run| run.ended.as_ref());
            if let Some(ended) = last.filter(|ended| !ended.outcome.is_success()) {
                schedule_problems.push(format!("{name} {}", failure_text(&ended.outcome)));
            }
        }
        Ok(schedule_problems)
    }

    /// The time from which this engine starts due runs.
    #[must_use]
    pub fn active_from(&self) -> Timestamp {
        self.began_at.after_ms(self.inner.config.cleanup.settle_ms)
    }

    async fn run_claimed(
        self: Arc<Self>,
        layer: CleanupLayer,
        schedule: &Schedule,
        claim: RunClaim,
    ) -> Result<Timestamp, StoreError> {
        let (cleaner, began_at) = (self.clone(), self.inner.clock.now());
        let mut run = JoinSet::new();
        // A separate task, so that a panic does not end the loop.
        run.spawn(async move { outcome(&cleaner.run(layer, CleanupMode::Act).await) });
        let outcome = match self.with_claim(&claim, run.join_next()).await {
            Some(Ok(outcome)) => outcome,
            Some(Err(broken)) => {
                tracing::error!(layer = layer.word(), error = %broken, "Cleanup job failed");
                let outcome = RunOutcome::Failed { error: broken.to_string(), report: RunReport::default() };
                // A run that panicked has not reported itself.
                self.inner.cleanup_observer.ran(layer, self.inner.clock.now().ms_since(began_at), &outcome);
                outcome
            }
            None => {
                self.inner.cleanup_observer.lost(layer);
                RunOutcome::Lost
            }
        };
        let now = self.inner.clock.now();
        // Scheduled from now: several missed runs are made up by one.
        let next_due = schedule.next_after(now);
        if !self.jobs.finish_run(&claim, now, next_due, outcome).await? {
            tracing::warn!(
                layer = layer.word(),
                "the claim on this run expired and another engine took it over"
            );
        }
        Ok(next_due)
    }

    /// Extends the claim while the run goes on. Losing the claim is harmless: stopping a sandbox twice is
    /// idempotent.
    async fn with_claim<T>(&self, claim: &RunClaim, work: impl Future<Output = T>) -> T {
        let clock = &self.inner.clock;
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = clock.sleep_until(clock.now().after_ms(CLAIM_MS / 3)) => {}
            }
            if let Err(error) = self.jobs.extend_claim(claim, clock.now().after_ms(CLAIM_MS)).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "could not extend the claim on a cleanup run");
            }
        }
    }
}

fn failure_text(outcome: &RunOutcome) -> String {
    match outcome {
        RunOutcome::Done(run_report) => {
            format!("could not end {} of {}", run_report.failed, run_report.found)
        }
        RunOutcome::Failed { error, .. } => format!("failed: {error}"),
        RunOutcome::Lost => "was lost with the engine that ran it".to_owned(),
    }
}

fn is_free_and_due(job: &ScheduledJob, now: Timestamp) -> bool {
    job.due_at <= now && job.holder.is_none_or(|held| held.until <= now)
}
