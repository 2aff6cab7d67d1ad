//! Records and history go when they are old enough, and a record only after the proof that its body is gone.

use std::sync::Arc;

use pinfold_lifecycle::Timestamp;
use pinfold_store::{Pruned, Retention, StoreError};

use crate::engine::Inner;
use crate::{Config, How};

/// How many records go in one transaction, so that nobody waits long behind it.
const BATCH: usize = 50;
/// And how many such transactions follow one another where all that is old is to go now.
const BATCHES: usize = 200;
const LOOKS_WITHIN_RETENTION: u64 = 4;

impl Inner {
    pub(crate) async fn keep_tidy(self: Arc<Self>) {
        loop {
            let more_is_old = match self.prune_some().await {
                Ok(pruned) => pruned.more,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "old records stay for now");
                    false
                }
            };
            let wait_ms = if more_is_old { self.config.poll_ms } else { tidy_every_ms(&self.config) };
            self.clock.sleep_until(self.clock.now().after_ms(wait_ms)).await;
        }
    }

    /// All that is past retention, each record only after the proof that its body is gone. Says how many records.
    pub(crate) async fn prune(&self, how: How) -> Result<u64, StoreError> {
        match how {
            How::Act => self.prune_all().await,
            How::DryRun => Ok(self.store.prunable(self.retention()).await?.min((BATCH * BATCHES) as u64)),
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

    /// The one place where old records go, so that each is told once.
    async fn prune_some(&self) -> Result<Pruned, StoreError> {
        let pruned = self.store.prune(self.retention(), BATCH).await?;
        self.stand.forgot(pruned.sandboxes as u64);
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

/// What is kept for a short time only is looked at more often, so that it is not kept for much longer.
fn tidy_every_ms(config: &Config) -> u64 {
    let shortest = config.keep_records_ms.min(config.keep_history_ms);
    config.reconcile_every_ms.min(shortest / LOOKS_WITHIN_RETENTION).max(config.poll_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_for_a_short_time_is_looked_at_more_often() {
        let kept_for = |records: u64, history: u64| {
            tidy_every_ms(&Config { keep_records_ms: records, keep_history_ms: history, ..Config::default() })
        };

        assert_eq!(kept_for(86_400_000, 7 * 86_400_000), 60_000);
        assert_eq!(kept_for(120_000, 86_400_000), 30_000);
        assert_eq!(kept_for(120_000, 40_000), 10_000);
        assert_eq!(kept_for(4, 4), Config::default().poll_ms);
    }
}
