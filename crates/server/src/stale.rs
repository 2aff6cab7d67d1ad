//! Logs and artifacts that may go when room is needed, for the engine that needs it.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_engine::{Clock, How, StaleData};
use pinfold_lifecycle::Cleared;
use pinfold_logs::{Artifacts, Expiry, Gone, Keep, Logs};

pub(crate) struct OldFiles {
    pub(crate) logs: Logs,
    pub(crate) artifacts: Artifacts,
    pub(crate) clock: Arc<dyn Clock>,
    /// How long they stay even then.
    pub(crate) keep: Keep,
}

#[async_trait]
impl StaleData for OldFiles {
    async fn clear_stale(&self, how: How) -> Cleared {
        let how = match how {
            How::DryRun => Expiry::Foretell,
            How::Act => Expiry::Remove,
        };
        let logs = self.logs.clear_stale(self.keep.logs_ms, self.clock.now(), how).await;
        logs.plus(self.clear_artifacts(how).await)
    }
}

impl OldFiles {
    async fn clear_artifacts(&self, how: Expiry) -> Cleared {
        match self.artifacts.clear_stale(self.keep, self.clock.now(), how).await {
            Ok(Gone { count, bytes }) => Cleared { cleaned: count as u64, skipped: 0, bytes },
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "old artifacts stay, although room is needed");
                Cleared { skipped: 1, ..Cleared::default() }
            }
        }
    }
}
