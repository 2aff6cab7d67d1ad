//! Downsampling of old metrics to quarters of an hour, and archiving of expired ones.

use std::time::Duration;

use pinfold_lifecycle::Timestamp;
use pinfold_store::{QUARTER_HOUR_MS, floor_to_step};

use super::archive::{ArchiveDaysError, DAY_MS, archive_days};
use crate::Service;

/// The longest time that per-minute values are kept.
const MINUTES_MS: u64 = DAY_MS;

impl Service {
    /// Keeps per-minute values for a day and all values for `keep`. Older values stay as quarters of an hour until
    /// their day is archived, so a failing archive costs some hundred rows a day.
    pub(crate) async fn downsample(&self, keep: Duration) -> Result<(), ArchiveDaysError> {
        let now = self.now();
        let keep_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let before = |ms: u64| Timestamp(now.0.saturating_sub_unsigned(ms));
        let minutes_before = floor_to_step(before(keep_ms.min(MINUTES_MS)), QUARTER_HOUR_MS);
        let store = &*self.host.store;
        // Count first: a day is closed without facts that are not counted yet.
        self.count_history().await?;
        store.downsample(minutes_before).await?;
        archive_days(store, &self.host.metrics_archive, before(keep_ms)).await
    }
}
