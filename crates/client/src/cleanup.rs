//! Cleaning up, and what it came to.

use hyper::Method;
use pinfold_api::{CleanupLayer, CleanupResult, CleanupRun, CleanupTurn};

use crate::client::{NOTHING, read};
use crate::{Client, ClientError};

impl Client {
    /// Ends what is stuck. With `dry_run`, only says what is.
    pub async fn clean_up(&self, dry_run: bool) -> Result<CleanupResult, ClientError> {
        self.clean_up_by(CleanupLayer::Scheduled, dry_run).await
    }

    /// Ends what one layer finds. With `dry_run`, only says what that is. An emergency is refused here.
    pub async fn clean_up_by(
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
        read(self.ask(Method::POST, &path, NOTHING).await?).await
    }

    /// Ends everything that is not critical. With `dry_run`, only says what that is.
    pub async fn clean_up_in_emergency(&self, dry_run: bool) -> Result<CleanupResult, ClientError> {
        let path = format!("/api/sandbox/cleanup/emergency?dry_run={dry_run}");
        read(self.ask(Method::POST, &path, NOTHING).await?).await
    }

    /// The newest first.
    pub async fn cleanup_runs(&self, limit: usize) -> Result<Vec<CleanupRun>, ClientError> {
        let path = format!("/api/sandbox/cleanup/runs?limit={limit}");
        read(self.ask(Method::GET, &path, NOTHING).await?).await
    }

    pub async fn cleanup_schedule(&self) -> Result<Vec<CleanupTurn>, ClientError> {
        read(self.ask(Method::GET, "/api/sandbox/cleanup/schedule", NOTHING).await?).await
    }
}
