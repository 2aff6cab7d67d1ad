//! Cleanup runs and their schedule.

use hyper::Method;
use pinfold_api::{CleanupLayer, CleanupResult, CleanupRun, CleanupSchedule};

use crate::client::{NO_BODY, read_json};
use crate::{Client, ClientError};

impl Client {
    /// Stops stuck sandboxes. With `dry_run`, only lists them.
    pub async fn clean_up(&self, dry_run: bool) -> Result<CleanupResult, ClientError> {
        self.clean_up_layer(CleanupLayer::Scheduled, dry_run).await
    }

    /// Stops what one layer finds. With `dry_run`, only lists it. The server refuses the emergency layer here.
    pub async fn clean_up_layer(
        &self,
        layer: CleanupLayer,
        dry_run: bool,
    ) -> Result<CleanupResult, ClientError> {
        let layer = match layer {
            CleanupLayer::Scheduled => "scheduled",
            CleanupLayer::ByAge => "by_age",
            CleanupLayer::Pressure => "pressure",
            CleanupLayer::Reconcile => "reconcile",
            CleanupLayer::Emergency => "emergency",
        };
        let path = format!("/api/sandbox/cleanup?layer={layer}&dry_run={dry_run}");
        read_json(self.request(Method::POST, &path, NO_BODY).await?).await
    }

    /// Stops every sandbox that is not critical. With `dry_run`, only lists them.
    pub async fn clean_up_emergency(&self, dry_run: bool) -> Result<CleanupResult, ClientError> {
        let path = format!("/api/sandbox/cleanup/emergency?dry_run={dry_run}");
        read_json(self.request(Method::POST, &path, NO_BODY).await?).await
    }

    /// Lists the latest cleanup runs, newest first.
    pub async fn cleanup_runs(&self, limit: usize) -> Result<Vec<CleanupRun>, ClientError> {
        let path = format!("/api/sandbox/cleanup/runs?limit={limit}");
        read_json(self.request(Method::GET, &path, NO_BODY).await?).await
    }

    pub async fn cleanup_schedule(&self) -> Result<Vec<CleanupSchedule>, ClientError> {
        read_json(self.request(Method::GET, "/api/sandbox/cleanup/schedule", NO_BODY).await?).await
    }
}
