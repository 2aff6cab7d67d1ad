//! Each layer at its times. A turn is taken in the store, so that it is run once however many engines share it, and a
//! run that fails leaves the next one to happen.

use std::sync::Arc;

use pinfold_lifecycle::Timestamp;
use pinfold_store::{CameTo, Chore, Figures, StoreError, TakeTurn, Turn};
use tokio::task::JoinSet;

use super::{Cleaner, How, Layer, came_to};
use crate::Schedule;

/// How long a turn is held before others take its holder for dead. It is held anew while it goes on.
const HOLD_MS: u64 = 180_000;
/// How soon a turn that another engine dropped, or a plan that it changed, is noticed.
const LOOK_AGAIN_MS: u64 = 30_000;
/// After something failed, and before a turn that is due and held by another is asked for again.
const SHORT_WAIT_MS: u64 = 1_000;
/// A turn that nobody takes for so long is late: every engine looks more often than that.
const LATE_MS: u64 = 120_000;

impl Cleaner {
    pub(super) async fn keep(self: Arc<Self>, layer: Layer) {
        let Some(schedule) = self.inner.config.cleanup.schedule_of(layer).cloned() else { return };
        let clock = self.inner.clock.clone();
        loop {
            let next = match self.clone().tend(layer, &schedule).await {
                Ok(due_at) => due_at,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(layer = layer.word(), error, "Cleanup job failed");
                    clock.now()
                }
            };
            let now = clock.now();
            let soon = now.after_ms(SHORT_WAIT_MS);
            clock
                .sleep_until(next.max(soon).max(self.watches_since()).min(now.after_ms(LOOK_AGAIN_MS)))
                .await;
        }
    }

    /// Does what is due. Says when the next turn is.
    async fn tend(self: Arc<Self>, layer: Layer, schedule: &Schedule) -> Result<Timestamp, StoreError> {
        let now = self.inner.clock.now();
        let known = self.chores.chores().await?.into_iter().find(|chore| chore.name == layer.chore());
        let Some(chore) = known.filter(|chore| chore.schedule == schedule.as_str()) else {
            let due_at = schedule.next_after(now);
            self.chores.plan(layer.chore(), schedule.as_str(), due_at).await?;
            return Ok(due_at);
        };
        if now < self.watches_since() || !is_free_and_due(&chore, now) {
            return Ok(chore.due_at);
        }
        let ask =
            TakeTurn { chore: chore.name, node: self.inner.node, now, hold_until: now.after_ms(HOLD_MS) };
        match self.chores.take(ask).await? {
            Some(turn) => {
                // Somebody was at it, for longer than was said.
                if chore.held.is_some() {
                    self.inner.stand.lost(layer);
                }
                self.do_turn(layer, schedule, turn).await
            }
            None => Ok(chore.due_at),
        }
    }

    /// What is wrong with the turns that cleanup should have had: one line each.
    pub async fn troubles(&self) -> Result<Vec<String>, StoreError> {
        let now = self.inner.clock.now();
        let mut troubles = Vec::new();
        for chore in self.chores.chores().await? {
            let name = &chore.name;
            let late_ms = now.ms_since(chore.due_at.max(self.watches_since()));
            if late_ms >= LATE_MS && is_free_and_due(&chore, now) {
                troubles
                    .push(format!("{name} should have begun {} s ago", now.ms_since(chore.due_at) / 1_000));
            }
            let last = chore.last_run.as_ref().and_then(|run| run.ended.as_ref());
            if let Some(ended) = last.filter(|ended| !ended.came_to.is_success()) {
                troubles.push(format!("{name} {}", what_went_wrong(&ended.came_to)));
            }
        }
        Ok(troubles)
    }

    /// Since when this engine begins turns that are due.
    #[must_use]
    pub fn watches_since(&self) -> Timestamp {
        self.began_at.after_ms(self.inner.config.cleanup.settle_ms)
    }

    async fn do_turn(
        self: Arc<Self>,
        layer: Layer,
        schedule: &Schedule,
        turn: Turn,
    ) -> Result<Timestamp, StoreError> {
        let (cleaner, began_at) = (self.clone(), self.inner.clock.now());
        let mut run = JoinSet::new();
        // A task of its own, so that not even a panic ends the ones to come.
        run.spawn(async move { came_to(&cleaner.run(layer, How::Act).await) });
        let came_to = match self.holding(&turn, run.join_next()).await {
            Some(Ok(came_to)) => came_to,
            Some(Err(broken)) => {
                tracing::error!(layer = layer.word(), error = %broken, "Cleanup job failed");
                let came_to = CameTo::Failed { error: broken.to_string(), figures: Figures::default() };
                // Whoever breaks off has told nobody.
                self.inner.stand.ran(layer, self.inner.clock.now().ms_since(began_at), &came_to);
                came_to
            }
            None => {
                self.inner.stand.lost(layer);
                CameTo::Lost
            }
        };
        let now = self.inner.clock.now();
        // From now on: a turn that was missed is made up for once.
        let next_due = schedule.next_after(now);
        if !self.chores.finish(&turn, now, next_due, came_to).await? {
            tracing::warn!(layer = layer.word(), "another engine took this turn for lost, and took it over");
        }
        Ok(next_due)
    }

    /// Says now and then that this turn goes on. Whether it still is this one's makes no difference to sandboxes: a
    /// second end of one is none.
    async fn holding<T>(&self, turn: &Turn, work: impl Future<Output = T>) -> T {
        let clock = &self.inner.clock;
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = clock.sleep_until(clock.now().after_ms(HOLD_MS / 3)) => {}
            }
            if let Err(error) = self.chores.hold(turn, clock.now().after_ms(HOLD_MS)).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "a turn could not be held for longer");
            }
        }
    }
}

fn what_went_wrong(came_to: &CameTo) -> String {
    match came_to {
        CameTo::Done(figures) => format!("could not end {} of {}", figures.failed, figures.found),
        CameTo::Failed { error, .. } => format!("failed: {error}"),
        CameTo::Lost => "was lost with whoever was at it".to_owned(),
    }
}

fn is_free_and_due(chore: &Chore, now: Timestamp) -> bool {
    chore.due_at <= now && chore.held.is_none_or(|held| held.until <= now)
}
