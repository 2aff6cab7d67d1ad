//! What is old is kept in less detail, and what is past its time in the archive alone.

use std::time::Duration;

use pinfold_lifecycle::Timestamp;
use pinfold_store::{Measures, QUARTER_MS, step_of};

use super::archiving::{ArchiveDaysError, DAY_MS, archive_days};
use crate::Service;

/// How long minutes are kept as such, at the most.
const MINUTES_MS: u64 = DAY_MS;

impl Service {
    /// Keeps the minutes of a day, and all for as long as is said. What is older waits in quarters of hours until its day
    /// is in the archive, so that an archive that cannot be written costs some hundred rows a day.
    pub(crate) async fn thin_out(&self, keep: Duration) -> Result<(), ArchiveDaysError> {
        let now = self.now();
        let keep_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let before = |ms: u64| Timestamp(now.0.saturating_sub_unsigned(ms));
        let minutes_before = step_of(before(keep_ms.min(MINUTES_MS)), QUARTER_MS);
        let store = &*self.host.store;
        // A day whose facts were not counted yet would be closed without them.
        self.count_history().await?;
        store.thin_out(minutes_before).await?;
        archive_days(store, &self.host.figures, before(keep_ms)).await
    }
}
