//! What is counted and measured of sandboxes. Facts of the history become sums with bounded names (`fold.rs`), sums of
//! any number of minutes and servers add up (`sums.rs`), and rates, percentiles and the text that Prometheus reads
//! follow from them. No name ever carries an id: `labels.rs` is all that may vary.

mod catalogue;
mod cleaned;
mod exposition;
mod family;
mod fold;
mod labels;
mod latency;
mod meter;
mod rates;
mod series;
mod standing;
mod sums;

pub use catalogue::{CATALOGUE, Kind, Metric, Scope};
pub use cleaned::Cleaned;
pub use exposition::{CONTENT_TYPE, Exposition};
pub use family::{Family, Point, Times, Value};
pub use fold::{Told, fold, has_failed, has_timed_out, is_failed_start, may_be_failed_start};
pub use labels::{AgentLabel, AgentTypes, NONE, OTHER, word};
pub use latency::{Histogram, Latency, Percentiles};
pub use meter::{Meter, Route};
pub use rates::{AgentFigures, CleanupFigures, Rates, Utilisation};
pub use series::{Series, UnknownSeries};
pub use standing::{AGES, OLDER, Standing};
pub use sums::Sums;
