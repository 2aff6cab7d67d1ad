//! Cleaning up, by a server or in this process.

use pinfold_api::{CleanupLayer, CleanupResult, CleanupRun, CleanupTurn};
use pinfold_engine::How;

use super::asked::{Asked, ask};
use super::{Plane, PlaneError};

impl Plane {
    pub(crate) async fn clean_up(&self, layer: CleanupLayer, dry_run: bool) -> Asked<CleanupResult> {
        let how = if dry_run { How::DryRun } else { How::Act };
        ask!(self, server => async {
            match layer {
                CleanupLayer::Emergency => server.client.clean_up_in_emergency(dry_run).await,
                CleanupLayer::Scheduled
                | CleanupLayer::ByAge
                | CleanupLayer::Pressure
                | CleanupLayer::Reconcile => server.client.clean_up_by(layer, dry_run).await,
            }
        }, here => here.service.clean_up(layer, how))
    }

    /// The newest first.
    pub(crate) async fn cleanup_runs(&self, limit: usize) -> Asked<Vec<CleanupRun>> {
        ask!(self, server => server.client.cleanup_runs(limit), here => {
            here.service.cleanup_runs(None, limit)
        })
    }

    pub(crate) async fn cleanup_schedule(&self) -> Asked<Vec<CleanupTurn>> {
        ask!(self, server => server.client.cleanup_schedule(), here => here.service.cleanup_schedule())
    }
}
