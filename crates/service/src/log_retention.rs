//! The server's loop for logs and artifacts: archives logs of ended sandboxes to the object store, and deletes
//! expired ones. Commands without a server leave this to the next server.

use std::sync::Arc;
use std::time::Duration;

use pinfold_logs::RetentionPeriods;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::Service;

/// Retention times, and how often they are applied.
#[derive(Debug, Clone, Copy)]
pub struct LogRetention {
    pub archive_every: Duration,
    pub expire_every: Duration,
    pub keep: RetentionPeriods,
}

/// Checks per retention time, so that nothing outlives a short retention by much.
const CHECKS_PER_RETENTION: u32 = 4;
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

impl LogRetention {
    #[must_use]
    pub fn with_retention(keep: RetentionPeriods) -> Self {
        let shortest = Duration::from_millis(keep.logs_ms.min(keep.artifacts_ms));
        Self {
            archive_every: check_interval(shortest, Duration::from_secs(60)),
            expire_every: check_interval(shortest, Duration::from_secs(3_600)),
            keep,
        }
    }
}

impl Default for LogRetention {
    fn default() -> Self {
        Self::with_retention(RetentionPeriods::default())
    }
}

/// The interval between checks for a retention time.
pub(crate) fn check_interval(keep: Duration, otherwise: Duration) -> Duration {
    (keep / CHECKS_PER_RETENTION).clamp(SHORTEST_INTERVAL, otherwise)
}

/// Runs until aborted.
pub(crate) async fn log_retention_loop(service: Arc<Service>, how: LogRetention) {
    let soon = Instant::now() + how.archive_every.min(Duration::from_secs(5));
    let (mut moving, mut expiring) =
        (interval_at(soon, how.archive_every), interval_at(soon, how.expire_every));
    moving.set_missed_tick_behavior(MissedTickBehavior::Delay);
    expiring.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = moving.tick() => service.archive_logs().await,
            _ = expiring.tick() => service.expire(how.keep).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_retention_is_checked_more_often() {
        let of = |logs_ms, artifacts_ms| {
            let how = LogRetention::with_retention(RetentionPeriods { logs_ms, artifacts_ms });
            (how.archive_every.as_millis(), how.expire_every.as_millis())
        };

        assert_eq!(of(604_800_000, 604_800_000), (60_000, 3_600_000));
        assert_eq!(of(120_000, 604_800_000), (30_000, 30_000));
        assert_eq!(of(604_800_000, 3_600_000), (60_000, 900_000));
        assert_eq!(of(1, 1), (100, 100));
    }
}
