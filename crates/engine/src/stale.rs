//! What lies around past its time, for whoever needs room now. Nothing that may still be in use is ever touched.

use async_trait::async_trait;
use pinfold_lifecycle::Cleared;

use crate::engine::Inner;

/// Stale data beside the records of the store.
#[async_trait]
pub trait StaleData: Send + Sync + 'static {
    /// Removes what is old enough and belongs to nothing that lives. Where it cannot be listed nothing is removed, and
    /// one thing that cannot be removed does not keep the rest.
    async fn clear_stale(&self) -> Cleared;
}

/// Records that go in one transaction, and transactions, at the most.
const BATCH: usize = 50;
const BATCHES: usize = 200;

impl Inner {
    /// Records that are past retention, and whatever else is known to be stale.
    pub(crate) async fn clear_stale(&self) -> Cleared {
        let records = self.clear_records().await;
        match self.room.stale() {
            Some(stale) => records.plus(stale.clear_stale().await),
            None => records,
        }
    }

    async fn clear_records(&self) -> Cleared {
        let mut cleared = Cleared::default();
        for _ in 0..BATCHES {
            match self.store.prune(self.retention(), BATCH).await {
                Ok(pruned) => {
                    cleared.cleaned += pruned as u64;
                    if pruned < BATCH {
                        break;
                    }
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "old records stay, although room is needed");
                    cleared.skipped += 1;
                    break;
                }
            }
        }
        cleared
    }
}
