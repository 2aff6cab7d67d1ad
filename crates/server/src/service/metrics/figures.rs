//! The figures that alerts and cleanup judge by.

use std::time::Duration;

use pinfold_lifecycle::Timestamp;
use pinfold_metrics::{CleanupFigures, Standing, Sums};
use pinfold_store::{MINUTE_MS, Measures, StoreError, step_of};

use crate::{Failure, Service};

/// Of all servers on the store. Rates and shares are between 0 and 1; None: not known, which is not 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    pub at: Timestamp,
    pub window: Duration,
    pub active: u64,
    /// Past a deadline of their own, or in quarantine.
    pub stuck: u64,
    /// Found without a lease, and not proven gone yet.
    pub orphaned: u64,
    /// That ended in the window.
    pub executions: u64,
    pub failure_rate: Option<f64>,
    pub timeout_rate: Option<f64>,
    pub inactivity_rate: Option<f64>,
    pub stop_failure_rate: Option<f64>,
    pub health_failure_rate: Option<f64>,
    /// Of what may be promised.
    pub sandboxes_share: Option<f64>,
    pub memory_share: Option<f64>,
    pub disk_share: Option<f64>,
    pub processes_share: Option<f64>,
    /// None: none has run in the window.
    pub cleanup: Option<CleanupFigures>,
}

impl Figures {
    pub(super) fn of(at: Timestamp, window: Duration, standing: &Standing, sums: &Sums) -> Self {
        let rates = sums.rates();
        Self {
            at,
            window,
            active: standing.active,
            stuck: standing.stuck,
            orphaned: standing.orphaned,
            executions: sums.executions(),
            failure_rate: rates.failure,
            timeout_rate: rates.timeout,
            inactivity_rate: rates.inactivity,
            stop_failure_rate: rates.stop_success.map(|success| 1.0 - success),
            health_failure_rate: rates.health_check_failure,
            sandboxes_share: standing.sandboxes_share(),
            memory_share: standing.memory_share(),
            disk_share: standing.disk_share(),
            processes_share: standing.processes_share(),
            cleanup: sums.cleanup(),
        }
    }
}

impl Service {
    /// Up to this moment, as far back as is said: to the beginning of that minute.
    pub async fn figures(&self, window: Duration) -> Result<Figures, Failure> {
        self.catch_up().await?;
        let standing = self.standing().await?;
        let sums = self.sums_of(window).await?;
        Ok(Figures::of(self.now(), window, &standing, &sums))
    }

    pub(crate) async fn sums_of(&self, window: Duration) -> Result<Sums, StoreError> {
        let back_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        let begin = Timestamp(self.now().0.saturating_sub_unsigned(back_ms));
        let from = step_of(begin, MINUTE_MS);
        let mut sums = Sums::default();
        // What another server counted may be of a minute that has not begun here.
        for step in self.host.store.measured(from, Timestamp(i64::MAX)).await? {
            sums.merge(&Sums(step.sums));
        }
        Ok(sums)
    }
}
