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
        match self.prune().await {
            Ok(pruned) => Cleared { cleaned: pruned, skipped: 0 },
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "old records stay, although room is needed");
                Cleared { cleaned: 0, skipped: 1 }
            }
        }
    }
}
