//! What a server does now and then for logs and artifacts: those of sandboxes that are gone go to the object store,
//! and what is old enough goes for good. A command without a server leaves that to the next server.

use std::sync::Arc;
use std::time::Duration;

use pinfold_logs::Keep;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::Service;

/// How often, and how long things are kept.
#[derive(Debug, Clone, Copy)]
pub struct Housekeeping {
    pub move_every: Duration,
    pub expire_every: Duration,
    pub keep: Keep,
}

/// Of what is kept for a short time only, nothing is kept for much longer.
const LOOKS_WITHIN_RETENTION: u32 = 4;
const SHORTEST: Duration = Duration::from_millis(100);

impl Housekeeping {
    #[must_use]
    pub fn keeping(keep: Keep) -> Self {
        let shortest = Duration::from_millis(keep.logs_ms.min(keep.artifacts_ms));
        Self {
            move_every: often_enough(shortest, Duration::from_secs(60)),
            expire_every: often_enough(shortest, Duration::from_secs(3_600)),
            keep,
        }
    }
}

impl Default for Housekeeping {
    fn default() -> Self {
        Self::keeping(Keep::default())
    }
}

/// How often to look for what is past its time.
pub(crate) fn often_enough(keep: Duration, otherwise: Duration) -> Duration {
    (keep / LOOKS_WITHIN_RETENTION).clamp(SHORTEST, otherwise)
}

/// Never ends by itself.
pub(crate) async fn keep_house(service: Arc<Service>, how: Housekeeping) {
    let soon = Instant::now() + how.move_every.min(Duration::from_secs(5));
    let (mut moving, mut expiring) = (interval_at(soon, how.move_every), interval_at(soon, how.expire_every));
    moving.set_missed_tick_behavior(MissedTickBehavior::Delay);
    expiring.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = moving.tick() => service.move_logs().await,
            _ = expiring.tick() => service.expire(how.keep).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_for_minutes_is_looked_for_within_them() {
        let of = |logs_ms, artifacts_ms| {
            let how = Housekeeping::keeping(Keep { logs_ms, artifacts_ms });
            (how.move_every.as_millis(), how.expire_every.as_millis())
        };

        assert_eq!(of(604_800_000, 604_800_000), (60_000, 3_600_000));
        assert_eq!(of(120_000, 604_800_000), (30_000, 30_000));
        assert_eq!(of(604_800_000, 3_600_000), (60_000, 900_000));
        assert_eq!(of(1, 1), (100, 100));
    }
}
