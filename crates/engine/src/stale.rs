//! What lies around past its time, for whoever needs room now. Nothing that may still be in use is ever touched.

use async_trait::async_trait;
use pinfold_lifecycle::Cleared;

use crate::How;
use crate::engine::Inner;

/// Stale data beside the records of the store.
#[async_trait]
pub trait StaleData: Send + Sync + 'static {
    /// Removes what is old enough and belongs to nothing that lives, or only says what that is. Where it cannot be
    /// listed nothing is removed, and one thing that cannot be removed does not keep the rest.
    async fn clear_stale(&self, how: How) -> Cleared;
}

impl Inner {
    /// Records that are past retention, and whatever else is known to be stale.
    pub(crate) async fn clear_stale(&self, how: How) -> Cleared {
        let records = self.clear_records(how).await;
        match self.room.stale() {
            Some(stale) => records.plus(stale.clear_stale(how).await),
            None => records,
        }
    }

    async fn clear_records(&self, how: How) -> Cleared {
        match self.prune(how).await {
            Ok(pruned) => Cleared { cleaned: pruned, ..Cleared::default() },
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "old records stay, although room is needed");
                Cleared { skipped: 1, ..Cleared::default() }
            }
        }
    }
}
