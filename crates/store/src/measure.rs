//! What was counted and measured, minute by minute. Beside [`crate::Store`], which engines use. The store adds up numbers
//! by name and knows no more of them.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pinfold_lifecycle::{SandboxId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{HistoryRow, Seq, StoreError};

/// Numbers by name. They are added up, but of those whose names begin with `max.` the largest stays.
pub type Sums = BTreeMap<String, u64>;

/// Where figures are remembered. The same promises hold as for [`crate::Store`].
#[async_trait]
pub trait Measures: Send + Sync + 'static {
    /// How far the history was counted, by whoever did.
    async fn counted_to(&self) -> Result<Seq, StoreError>;

    /// All that was ever counted.
    async fn counted(&self) -> Result<Sums, StoreError>;

    /// Adds what was counted, to all and to its minutes. False: somebody else has counted on from there, and nothing
    /// was added.
    async fn count(&self, count: Count) -> Result<bool, StoreError>;

    /// Writes down how things stand in this minute. False: somebody else did.
    async fn sample(&self, minute: Timestamp, gauges: BTreeMap<String, f64>) -> Result<bool, StoreError>;

    /// What begins between these moments, the oldest first.
    async fn measured(&self, from: Timestamp, to: Timestamp) -> Result<Vec<Measured>, StoreError>;

    /// Makes quarters of hours from minutes that begin before this moment.
    async fn thin_out(&self, minutes_before: Timestamp) -> Result<(), StoreError>;

    /// When the oldest that is here begins.
    async fn oldest_measured(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Closes all quarters of hours that end by this moment: nothing changes them from now on. What belongs there and
    /// is counted later counts in the first minute that is open.
    async fn close(&self, before: Timestamp) -> Result<(), StoreError>;

    /// Drops what begins before this moment, if it is closed.
    async fn drop_closed(&self, before: Timestamp) -> Result<(), StoreError>;

    /// The last records of a sandbox up to a place, that one included, the oldest first.
    async fn records_up_to(
        &self,
        of: SandboxId,
        place: Seq,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError>;
}

/// What was counted in one go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Count {
    /// Which part of the history: after the one place, up to the other. None: it is not from the history.
    pub span: Option<(Seq, Seq)>,
    /// By the minute in which it happened.
    pub minutes: BTreeMap<Timestamp, Sums>,
}

/// One minute, or a quarter of an hour.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measured {
    pub at: Timestamp,
    pub step_ms: u64,
    pub sums: Sums,
    pub gauges: BTreeMap<String, Gauge>,
}

/// Seen so often, and what was seen then in all.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Gauge {
    pub sum: f64,
    pub times: u32,
}

impl Gauge {
    #[must_use]
    pub fn mean(self) -> f64 {
        self.sum / f64::from(self.times.max(1))
    }
}

pub const MINUTE_MS: u64 = 60_000;
pub const QUARTER_MS: u64 = 15 * MINUTE_MS;

/// The step that a moment is in.
#[must_use]
pub fn step_of(at: Timestamp, step_ms: u64) -> Timestamp {
    Timestamp(at.0 - at.0.rem_euclid(i64::try_from(step_ms).unwrap_or(i64::MAX)))
}
