//! Records and history go when they are old enough, and a record only after the proof that its body is gone.

use std::sync::Arc;

use pinfold_lifecycle::Timestamp;
use pinfold_store::{Retention, StoreError};

use crate::engine::Inner;

/// How many records go in one transaction, so that nobody waits long behind it.
const BATCH: usize = 50;
/// And how many such transactions follow one another where all that is old is to go now.
const BATCHES: usize = 200;
const LOOKS_WITHIN_RETENTION: u64 = 4;

impl Inner {
    pub(crate) async fn keep_tidy(self: Arc<Self>) {
        loop {
            let more_is_old = match self.store.prune(self.retention(), BATCH).await {
                Ok(pruned) => pruned.more,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "old records stay for now");
                    false
                }
            };
            let wait_ms = if more_is_old { self.config.poll_ms } else { self.tidy_every_ms() };
            self.clock.sleep_until(self.clock.now().after_ms(wait_ms)).await;
        }
    }

    /// All that is past retention, each record only after the proof that its body is gone.
    pub(crate) async fn prune(&self) -> Result<u64, StoreError> {
        let mut pruned = 0;
        for _ in 0..BATCHES {
            let batch = self.store.prune(self.retention(), BATCH).await?;
            pruned += batch.sandboxes as u64;
            if !batch.more {
                break;
            }
        }
        Ok(pruned)
    }

    /// What is kept for a short time only is looked at more often, so that it is not kept for much longer.
    fn tidy_every_ms(&self) -> u64 {
        let shortest = self.config.keep_records_ms.min(self.config.keep_history_ms);
        self.config.reconcile_every_ms.min(shortest / LOOKS_WITHIN_RETENTION).max(self.config.poll_ms)
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
