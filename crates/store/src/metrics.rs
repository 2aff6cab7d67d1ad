//! Counters and gauges per minute. The store adds up numbers by name and does not know what they mean.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pinfold_lifecycle::{SandboxId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{HistoryRow, Seq, StoreError};

/// Counters by name. Values are added up; of names that begin with `max.` the largest value is kept.
pub type CounterValues = BTreeMap<String, u64>;

/// The metrics of all servers of one store. Durability is that of [`crate::Store`].
#[async_trait]
pub trait MetricStore: Send + Sync + 'static {
    /// The number of the last history record that was counted, by any server.
    async fn counted_up_to(&self) -> Result<Seq, StoreError>;

    /// The counters since the store was made.
    async fn metric_totals(&self) -> Result<CounterValues, StoreError>;

    /// Adds counters to the totals and to their minutes. False: another server has counted this part of the history, and
    /// nothing was added.
    async fn add_counts(&self, batch: CountBatch) -> Result<bool, StoreError>;

    /// Records the gauges of this minute. False: another server has recorded them.
    async fn record_gauges(
        &self,
        minute: Timestamp,
        gauges: BTreeMap<String, f64>,
    ) -> Result<bool, StoreError>;

    /// The points that begin between these times, the oldest first.
    async fn metric_points(&self, from: Timestamp, to: Timestamp) -> Result<Vec<MetricPoint>, StoreError>;

    /// Merges minutes that begin before this time into quarters of an hour.
    async fn downsample(&self, minutes_before: Timestamp) -> Result<(), StoreError>;

    /// When the oldest point begins.
    async fn oldest_metric_point(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Closes all quarters of an hour that end by this time: they never change again. Counts that arrive later for a
    /// closed quarter are added to the first minute that is open.
    async fn close_quarter_hours(&self, before: Timestamp) -> Result<(), StoreError>;

    /// Drops closed points that begin before this time.
    async fn drop_closed_points(&self, before: Timestamp) -> Result<(), StoreError>;

    /// The last history records of a sandbox up to and including a number, the oldest first.
    async fn history_up_to(
        &self,
        of: SandboxId,
        seq: Seq,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError>;
}

/// Counters that are added in one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CountBatch {
    /// The part of the history that was counted: after the first number, up to the second. None: the counts do not come
    /// from the history.
    pub history_range: Option<(Seq, Seq)>,
    /// By the minute in which it happened.
    pub minutes: BTreeMap<Timestamp, CounterValues>,
}

/// The metrics of one minute, or of a quarter of an hour.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetricPoint {
    pub at: Timestamp,
    pub step_ms: u64,
    pub counters: CounterValues,
    pub gauges: BTreeMap<String, Gauge>,
}

/// The sum of a gauge's samples, and how many there were.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Gauge {
    pub sum: f64,
    pub samples: u32,
}

impl Gauge {
    #[must_use]
    pub fn mean(self) -> f64 {
        self.sum / f64::from(self.samples.max(1))
    }
}

pub const MINUTE_MS: u64 = 60_000;
pub const QUARTER_HOUR_MS: u64 = 15 * MINUTE_MS;

/// The beginning of the step that contains this time.
#[must_use]
pub fn floor_to_step(at: Timestamp, step_ms: u64) -> Timestamp {
    Timestamp(at.0 - at.0.rem_euclid(i64::try_from(step_ms).unwrap_or(i64::MAX)))
}
