//! Clearing away logs because room is needed. As careful as retention, and one failure does not keep the rest.

use pinfold_lifecycle::{Cleared, SandboxId, Timestamp};

use crate::archive::all_logs;
use crate::logs::Logs;
use crate::retention::{Expiry, Gone, Group, RetentionError, groups};

impl Logs {
    /// Deletes logs of sandboxes that are proven gone, and that were moved or last written so long ago, or only tells
    /// what that would come to. Where they cannot all be listed, none is deleted.
    pub async fn clear_stale(&self, age_ms: u64, now: Timestamp, how: Expiry) -> Cleared {
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
                return Cleared { skipped: found as u64, ..Cleared::default() };
            }
        };
        let mut cleared = Cleared::default();
        for (name, group) in &moved {
            let Ok(sandbox) = name.parse() else { continue };
            cleared = cleared.plus(self.clear_moved(sandbox, group, before, now, how).await);
        }
        for sandbox in here {
            cleared = cleared.plus(told(sandbox, self.expire_here(sandbox, before, how).await));
        }
        cleared
    }

    async fn clear_moved(
        &self,
        sandbox: SandboxId,
        group: &Group,
        before: Timestamp,
        now: Timestamp,
        how: Expiry,
    ) -> Cleared {
        // It is moved only after the proof, but a stray may be found later.
        match self.is_gone(sandbox).await {
            Ok(true) => told(sandbox, self.expire_moved(sandbox, group, before, now, how).await),
            Ok(false) => Cleared { skipped: 1, ..Cleared::default() },
            Err(error) => told(sandbox, Err(error.into())),
        }
    }
}

fn told(sandbox: SandboxId, gone: Result<Gone, RetentionError>) -> Cleared {
    match gone {
        Ok(Gone { count, bytes }) => Cleared { cleaned: count as u64, skipped: u64::from(count == 0), bytes },
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(sandbox_id = %sandbox, error, "a log is not cleared away");
            Cleared { skipped: 1, ..Cleared::default() }
        }
    }
}
