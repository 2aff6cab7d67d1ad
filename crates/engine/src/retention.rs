//! Retention: deletes old records and history; a record only after the proof that its instance is gone.

use std::sync::Arc;

use pinfold_lifecycle::Timestamp;
use pinfold_store::{Pruned, Retention, StoreError};

use crate::engine::Inner;
use crate::{CleanupMode, Config};

/// Records deleted in one transaction, so that other writers do not wait long.
const BATCH: usize = 50;
/// Maximum number of such transactions in one `prune`.
const BATCHES: usize = 200;
const CHECKS_PER_RETENTION: u64 = 4;

impl Inner {
    pub(crate) async fn retention_loop(self: Arc<Self>) {
        loop {
            let more_is_old = match self.prune_some().await {
                Ok(pruned) => pruned.more,
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "deleting old records failed, retrying later"
                    );
                    false
                }
            };
            let wait_ms = if more_is_old { self.config.poll_ms } else { retention_interval_ms(&self.config) };
            self.clock.sleep_until(self.clock.now().after_ms(wait_ms)).await;
        }
    }

    /// Deletes, or in a dry run counts, all records past retention. Returns their number.
    pub(crate) async fn prune(&self, mode: CleanupMode) -> Result<u64, StoreError> {
        match mode {
            CleanupMode::Act => self.prune_all().await,
            CleanupMode::DryRun => {
                Ok(self.store.count_prunable(self.retention()).await?.min((BATCH * BATCHES) as u64))
            }
        }
    }

    async fn prune_all(&self) -> Result<u64, StoreError> {
        let mut pruned = 0;
        for _ in 0..BATCHES {
            let batch = self.prune_some().await?;
            pruned += batch.sandboxes as u64;
            if !batch.more {
                break;
            }
        }
        Ok(pruned)
    }

    /// The only place that deletes records, so that each is reported once.
    async fn prune_some(&self) -> Result<Pruned, StoreError> {
        let pruned = self.store.prune(self.retention(), BATCH).await?;
        self.cleanup_observer.pruned_records(pruned.sandboxes as u64);
        Ok(pruned)
    }

    fn retention(&self) -> Retention {
        let now = self.clock.now();
        let before = |ms: u64| Timestamp(now.0.saturating_sub_unsigned(ms));
        Retention {
            records_before: before(self.config.keep_records_ms),
            history_before: before(self.config.keep_history_ms),
            now,
        }
    }
}

/// A short retention is checked more often, so that records do not outlive it by much.
fn retention_interval_ms(config: &Config) -> u64 {
    let shortest = config.keep_records_ms.min(config.keep_history_ms);
    config.reconcile_every_ms.min(shortest / CHECKS_PER_RETENTION).max(config.poll_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_retention_is_checked_more_often() {
        let kept_for = |records: u64, history: u64| {
            retention_interval_ms(&Config {
                keep_records_ms: records,
                keep_history_ms: history,
                ..Config::default()
            })
        };

        assert_eq!(kept_for(86_400_000, 7 * 86_400_000), 60_000);
        assert_eq!(kept_for(120_000, 86_400_000), 30_000);
        assert_eq!(kept_for(120_000, 40_000), 10_000);
        assert_eq!(kept_for(4, 4), Config::default().poll_ms);
    }
}
