//! Removal of old logs and artifacts when the engine needs disk space.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_engine::{CleanupMode, Clock, StaleData};
use pinfold_lifecycle::StaleDataCleanup;
use pinfold_logs::{Artifacts, Logs, RemovalMode, Removed, RetentionPeriods};

pub(crate) struct StaleFiles {
    pub(crate) logs: Logs,
    pub(crate) artifacts: Artifacts,
    pub(crate) clock: Arc<dyn Clock>,
    /// Minimum retention, even when space is needed.
    pub(crate) keep: RetentionPeriods,
}

#[async_trait]
impl StaleData for StaleFiles {
    async fn clear_stale(&self, mode: CleanupMode) -> StaleDataCleanup {
        let mode = match mode {
            CleanupMode::DryRun => RemovalMode::DryRun,
            CleanupMode::Act => RemovalMode::Remove,
        };
        let logs = self.logs.clear_stale(self.keep.logs_ms, self.clock.now(), mode).await;
        logs.plus(self.clear_artifacts(mode).await)
    }
}

impl StaleFiles {
    async fn clear_artifacts(&self, mode: RemovalMode) -> StaleDataCleanup {
        match self.artifacts.clear_stale(self.keep, self.clock.now(), mode).await {
            Ok(Removed { count, bytes }) => StaleDataCleanup { cleaned: count as u64, skipped: 0, bytes },
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "could not remove old artifacts although disk space is needed");
                StaleDataCleanup { skipped: 1, ..StaleDataCleanup::default() }
            }
        }
    }
}
