//! Stale data that can be removed when disk space is needed. Data that may still be in use is never touched.

use async_trait::async_trait;
use pinfold_lifecycle::StaleDataCleanup;

use crate::CleanupMode;
use crate::engine::Inner;

/// Stale data outside the store.
#[async_trait]
pub trait StaleData: Send + Sync + 'static {
    /// Removes stale data, or in a dry run reports it. If listing fails nothing is removed; one item that
    /// cannot be removed does not keep the others.
    async fn clear_stale(&self, mode: CleanupMode) -> StaleDataCleanup;
}

impl Inner {
    /// Removes records past retention and registered stale data.
    pub(crate) async fn clear_stale(&self, mode: CleanupMode) -> StaleDataCleanup {
        let records = self.clear_records(mode).await;
        match self.room.stale() {
            Some(stale) => records.plus(stale.clear_stale(mode).await),
            None => records,
        }
    }

    async fn clear_records(&self, mode: CleanupMode) -> StaleDataCleanup {
        match self.prune(mode).await {
            Ok(pruned) => StaleDataCleanup { cleaned: pruned, ..StaleDataCleanup::default() },
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "could not delete old records to free disk space");
                StaleDataCleanup { skipped: 1, ..StaleDataCleanup::default() }
            }
        }
    }
}
