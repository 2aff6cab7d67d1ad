//! Deletes old logs when the disk runs full. It is as careful as retention, and one failure does not stop the rest.

use pinfold_lifecycle::{SandboxId, StaleDataCleanup, Timestamp};

use crate::archive::all_logs;
use crate::logs::Logs;
use crate::retention::{ObjectGroup, RemovalMode, Removed, RetentionError, groups};

impl Logs {
    /// Deletes logs of sandboxes that are proven gone and that were moved or last written longer ago than `age_ms`, or only
    /// reports what it would delete. If they cannot all be listed, none is deleted.
    pub async fn clear_stale(&self, age_ms: u64, now: Timestamp, mode: RemovalMode) -> StaleDataCleanup {
        let before = Timestamp(now.0.saturating_sub_unsigned(age_ms));
        let here = self.output.sandboxes().map_err(|source| RetentionError::Files { source });
        let listed = groups(&self.objects, &all_logs(&self.objects)).await;
        let (here, moved) = match (here, listed) {
            (Ok(here), Ok(moved)) => (here, moved),
            (here, moved) => {
                let found = here.as_ref().map_or(0, Vec::len) + moved.as_ref().map_or(0, |moved| moved.len());
                for error in [here.err(), moved.err()].into_iter().flatten() {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "could not list logs, deleting none");
                }
                return StaleDataCleanup { skipped: found as u64, ..StaleDataCleanup::default() };
            }
        };
        let mut cleared = StaleDataCleanup::default();
        for (name, group) in &moved {
            let Ok(sandbox) = name.parse() else { continue };
            cleared = cleared.plus(self.clear_moved(sandbox, group, before, now, mode).await);
        }
        for sandbox in here {
            cleared = cleared.plus(cleanup_of(sandbox, self.expire_here(sandbox, before, mode).await));
        }
        cleared
    }

    async fn clear_moved(
        &self,
        sandbox: SandboxId,
        group: &ObjectGroup,
        before: Timestamp,
        now: Timestamp,
        mode: RemovalMode,
    ) -> StaleDataCleanup {
        // A log is moved only after the proof that its instance is gone, but a stray may be found later.
        match self.is_gone(sandbox).await {
            Ok(true) => cleanup_of(sandbox, self.expire_moved(sandbox, group, before, now, mode).await),
            Ok(false) => StaleDataCleanup { skipped: 1, ..StaleDataCleanup::default() },
            Err(error) => cleanup_of(sandbox, Err(error.into())),
        }
    }
}

fn cleanup_of(sandbox: SandboxId, removed: Result<Removed, RetentionError>) -> StaleDataCleanup {
    match removed {
        Ok(Removed { count, bytes }) => {
            StaleDataCleanup { cleaned: count as u64, skipped: u64::from(count == 0), bytes }
        }
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(sandbox_id = %sandbox, error, "could not delete a log, skipping it");
            StaleDataCleanup { skipped: 1, ..StaleDataCleanup::default() }
        }
    }
}
