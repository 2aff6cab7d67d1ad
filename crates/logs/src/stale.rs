//! Clearing away logs because room is needed. As careful as retention, and one failure does not keep the rest.

use pinfold_lifecycle::{Cleared, SandboxId, Timestamp};

use crate::archive::all_logs;
use crate::logs::Logs;
use crate::retention::{Group, RetentionError, groups};

impl Logs {
    /// Deletes logs of sandboxes that are proven gone, and that were moved or last written so long ago. Where they
    /// cannot all be listed, none is deleted.
    pub async fn clear_stale(&self, age_ms: u64, now: Timestamp) -> Cleared {
        let before = Timestamp(now.0.saturating_sub_unsigned(age_ms));
        let here = self.places.here().map_err(|source| RetentionError::Files { source });
        let listed = groups(&self.objects, &all_logs(&self.objects)).await;
        let (here, moved) = match (here, listed) {
            (Ok(here), Ok(moved)) => (here, moved),
            (here, moved) => {
                let found = here.as_ref().map_or(0, Vec::len) + moved.as_ref().map_or(0, |moved| moved.len());
                for error in [here.err(), moved.err()].into_iter().flatten() {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "logs cannot be listed, so none is cleared away");
                }
                return Cleared { cleaned: 0, skipped: found as u64 };
            }
        };
        let mut cleared = Cleared::default();
        for (name, group) in &moved {
            let Ok(sandbox) = name.parse() else { continue };
            cleared = cleared.plus(self.clear_moved(sandbox, group, before, now).await);
        }
        for sandbox in here {
            cleared = cleared.plus(told(sandbox, self.expire_here(sandbox, before).await));
        }
        cleared
    }

    async fn clear_moved(
        &self,
        sandbox: SandboxId,
        group: &Group,
        before: Timestamp,
        now: Timestamp,
    ) -> Cleared {
        // It is moved only after the proof, but a stray may be found later.
        match self.is_gone(sandbox).await {
            Ok(true) => told(sandbox, self.expire_moved(sandbox, group, before, now).await),
            Ok(false) => Cleared { cleaned: 0, skipped: 1 },
            Err(error) => told(sandbox, Err(error.into())),
        }
    }
}

fn told(sandbox: SandboxId, deleted: Result<bool, RetentionError>) -> Cleared {
    match deleted {
        Ok(deleted) => Cleared { cleaned: u64::from(deleted), skipped: u64::from(!deleted) },
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(sandbox_id = %sandbox, error, "a log is not cleared away");
            Cleared { cleaned: 0, skipped: 1 }
        }
    }
}
