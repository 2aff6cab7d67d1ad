//! Logs and artifacts that are past their time, for whoever needs room now.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_engine::{Attic, Clock};
use pinfold_logs::{Artifacts, Keep, Logs, RetentionError};

pub(crate) struct OldLogs {
    pub(crate) logs: Logs,
    pub(crate) artifacts: Artifacts,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keep: Keep,
}

impl OldLogs {
    async fn expire(&self) -> Result<usize, RetentionError> {
        let now = self.clock.now();
        Ok(self.logs.expire(self.keep, now).await? + self.artifacts.expire(self.keep, now).await?)
    }
}

#[async_trait]
impl Attic for OldLogs {
    async fn clear_out(&self) -> u64 {
        match self.expire().await {
            Ok(removed) => removed as u64,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "old logs and artifacts stay for now");
                0
            }
        }
    }
}
