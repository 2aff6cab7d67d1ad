//! Cleanup requests to the backend.

use pinfold_api::{CleanupLayer, CleanupResult, CleanupRun, CleanupSchedule};
use pinfold_engine::CleanupMode;

use super::requests::{Reply, dispatch};
use super::{Backend, BackendError};

impl Backend {
    pub(crate) async fn clean_up(&self, layer: CleanupLayer, dry_run: bool) -> Reply<CleanupResult> {
        let how = if dry_run { CleanupMode::DryRun } else { CleanupMode::Act };
        dispatch!(self, server => async {
            match layer {
                CleanupLayer::Emergency => server.client.clean_up_emergency(dry_run).await,
                CleanupLayer::Scheduled
                | CleanupLayer::ByAge
                | CleanupLayer::Pressure
                | CleanupLayer::Reconcile => server.client.clean_up_layer(layer, dry_run).await,
            }
        }, local => local.service.clean_up(layer, how))
    }

    /// Lists cleanup runs, newest first.
    pub(crate) async fn cleanup_runs(&self, limit: usize) -> Reply<Vec<CleanupRun>> {
        dispatch!(self, server => server.client.cleanup_runs(limit), local => {
            local.service.cleanup_runs(None, limit)
        })
    }

    pub(crate) async fn cleanup_schedule(&self) -> Reply<Vec<CleanupSchedule>> {
        dispatch!(self, server => server.client.cleanup_schedule(), local => local.service.cleanup_schedule())
    }
}
