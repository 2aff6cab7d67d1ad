//! Metrics over all sandboxes: `aggregate.rs` counts history facts, `gauges.rs` samples current values,
//! `downsample.rs` and `archive.rs` handle old values, `summary.rs` is the input for decisions, `history.rs` and
//! `view.rs` build the API's answers.

mod aggregate;
mod archive;
mod downsample;
mod gauges;
mod history;
mod summary;
mod view;

pub(super) use aggregate::MetricsAggregator;
pub use summary::MetricsSummary;
