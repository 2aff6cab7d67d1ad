//! Logs that may go when the disk is short, for the engine that needs room.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_engine::{Clock, HostClock, StaleData};
use pinfold_lifecycle::Cleared;
use pinfold_logs::Logs;

pub(crate) struct StaleLogs {
    pub(crate) logs: Logs,
    pub(crate) clock: Arc<HostClock>,
    /// How long ago they were moved or last written.
    pub(crate) age_ms: u64,
}

#[async_trait]
impl StaleData for StaleLogs {
    async fn clear_stale(&self) -> Cleared {
        self.logs.clear_stale(self.age_ms, self.clock.now()).await
    }
}
