//! Free capacity of the host, checked before a lease is created. When the disk is nearly full, stale data is
//! removed and capacity is measured again. No sandbox is ended for it.

use std::sync::{Arc, OnceLock};

use pinfold_lifecycle::{HostHeadroom, HostReserve, HostShortage, StaleDataCleanup, Timestamp};
use tokio::sync::Mutex;

use crate::CleanupMode;
use crate::engine::{Engine, Inner};
use crate::stale::StaleData;

/// How long a measurement is reused.
const CACHE_MS: u64 = 1_000;
/// Time limit of a measurement.
const MEASURE_TIMEOUT_MS: u64 = 2_000;
/// Interval between two removals of stale data, and the time limit of one.
const CLEAR_EVERY_MS: u64 = 10_000;
const CLEAR_TIMEOUT_MS: u64 = 10_000;

/// The last measurement. Concurrent callers share one measurement by waiting on the lock.
#[derive(Default)]
pub(crate) struct HostCapacityCache {
    last: Mutex<LastMeasurement>,
    stale: OnceLock<Arc<dyn StaleData>>,
}

#[derive(Default)]
struct LastMeasurement {
    room: Option<(Timestamp, Result<HostHeadroom, HostShortage>)>,
    cleared: Option<(Timestamp, StaleDataCleanup)>,
}

impl HostCapacityCache {
    pub(crate) fn stale(&self) -> Option<&Arc<dyn StaleData>> {
        self.stale.get()
    }
}

impl Engine {
    /// Registers stale data outside the store. Set once.
    pub fn set_stale_data(&self, stale: Arc<dyn StaleData>) {
        // A second call has no effect.
        let _ = self.inner.room.stale.set(stale);
    }
}

impl Inner {
    pub(crate) async fn host_has_room(&self) -> Result<(), HostShortage> {
        let reserve = self.config.keep;
        if reserve == HostReserve::default() {
            return Ok(());
        }
        let mut last = self.room.last.lock().await;
        let room = self.headroom(&mut last, CACHE_MS).await?;
        let is_short = |refused: &HostShortage| matches!(refused, HostShortage::LowDisk { .. });
        match room.admit(&reserve, StaleDataCleanup::default()) {
            Err(refused) if is_short(&refused) => {
                let cleared = self.clear_stale_for_disk(&mut last).await;
                self.headroom(&mut last, CACHE_MS).await?.admit(&reserve, cleared)
            }
            decided => decided,
        }
    }

    async fn headroom(
        &self,
        last: &mut LastMeasurement,
        max_age_ms: u64,
    ) -> Result<HostHeadroom, HostShortage> {
        let now = self.clock.now();
        if let Some((at, room)) = &last.room
            && now.ms_since(*at) < max_age_ms
        {
            return room.clone();
        }
        let room = self.measure().await;
        last.room = Some((self.clock.now(), room.clone()));
        room
    }

    async fn measure(&self) -> Result<HostHeadroom, HostShortage> {
        let unmeasurable = |what: String| HostShortage::Unmeasurable { what };
        let too_long = self.clock.now().after_ms(MEASURE_TIMEOUT_MS);
        let measured = tokio::select! {
            biased;
            measured = self.provider.capacity() => measured,
            () = self.clock.sleep_until(too_long) => return Err(unmeasurable("measuring took too long".to_owned())),
        };
        let left = measured.map_err(|error| unmeasurable(error.to_string()))?;
        Ok(HostHeadroom {
            disk_mb: left.disk_mb_left,
            memory_mb: left.memory_mb_left,
            processes: left.processes_left,
            unusable: left.disk_unusable,
        })
    }

    /// Removes stale data, or returns the result of the last removal if that is recent.
    async fn clear_stale_for_disk(&self, last: &mut LastMeasurement) -> StaleDataCleanup {
        let now = self.clock.now();
        if let Some((at, cleared)) = last.cleared
            && now.ms_since(at) < CLEAR_EVERY_MS
        {
            return cleared;
        }
        let cleared = tokio::select! {
            biased;
            cleared = self.clear_stale(CleanupMode::Act) => cleared,
            () = self.clock.sleep_until(now.after_ms(CLEAR_TIMEOUT_MS)) => StaleDataCleanup::default(),
        };
        tracing::warn!(
            cleaned = cleared.cleaned,
            skipped = cleared.skipped,
            "low disk space: removed stale data"
        );
        last.cleared = Some((self.clock.now(), cleared));
        last.room = None;
        cleared
    }
}
