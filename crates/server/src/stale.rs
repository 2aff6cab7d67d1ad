//! Logs and artifacts that may go when room is needed, for the engine that needs it.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_engine::{Clock, StaleData};
use pinfold_lifecycle::Cleared;
use pinfold_logs::{Artifacts, Keep, Logs};

pub(crate) struct OldFiles {
    pub(crate) logs: Logs,
    pub(crate) artifacts: Artifacts,
    pub(crate) clock: Arc<dyn Clock>,
    /// How long they stay even then.
    pub(crate) keep: Keep,
}

#[async_trait]
impl StaleData for OldFiles {
    async fn clear_stale(&self) -> Cleared {
        let logs = self.logs.clear_stale(self.keep.logs_ms, self.clock.now()).await;
        logs.plus(self.clear_artifacts().await)
    }
}

impl OldFiles {
    async fn clear_artifacts(&self) -> Cleared {
        match self.artifacts.expire(self.keep, self.clock.now()).await {
            Ok(expired) => Cleared { cleaned: expired as u64, skipped: 0 },
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "old artifacts stay, although room is needed");
                Cleared { cleaned: 0, skipped: 1 }
            }
        }
    }
}
