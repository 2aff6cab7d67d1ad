//! Metrics of sandboxes: counters, histograms, gauges and what is derived from them.
//!
//! ```text
//!   history records ──► history.rs ──┐
//!   probes, refusals ─► process_metrics.rs ─┴─► Counters (addable over minutes and servers)
//!                                                  │
//!   store and host ───► Gauges ──┐                 ├─► Rates, Percentiles, Series (API)
//!                                └─► Exposition ◄──┘   text for Prometheus, families for OTLP
//! ```
//!
//! - [`count_entry`] turns one history record into [`Counters`].
//! - [`ProcessMetrics`] holds what only this process sees; [`Gauges`] holds current values.
//! - [`CATALOGUE`] lists every exported metric. [`Exposition`] writes them.
//! - Label values come from closed lists (`labels.rs`), never from ids, so the number of time series is bounded.

mod catalogue;
mod cleanup;
mod counters;
mod exposition;
mod family;
mod gauges;
mod history;
mod labels;
mod latency;
mod process_metrics;
mod rates;
mod series;

pub use catalogue::{CATALOGUE, Kind, Metric, Scope};
pub use cleanup::CleanupRun;
pub use counters::Counters;
pub use exposition::{Exposition, TextFormat};
pub use family::{Family, HistogramValue, Point, Value};
pub use gauges::{AGES, Gauges, OLDER};
pub use history::{
    HistoryEntry, count_entry, has_failed, has_timed_out, is_failed_start, may_be_failed_start,
};
pub use labels::{AgentLabel, AgentTypes, NONE, OTHER, word};
pub use latency::{Histogram, Latency, Percentiles};
pub use process_metrics::{ProcessMetrics, Route};
pub use rates::{AgentMetrics, CleanupMetrics, Rates, Utilisation};
pub use series::{Series, UnknownSeries};
