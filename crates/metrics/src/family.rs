//! One metric with all its values at one moment. Both exporters (Prometheus and OTLP) use it.

use crate::latency::{BOUNDS_MS, Histogram, float};
use crate::{Kind, Metric, Scope};

#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    pub metric: &'static Metric,
    pub points: Vec<Point>,
}

/// Label values, in the order of the metric's label names.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub labels: Vec<String>,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Number(f64),
    Histogram(HistogramValue),
}

/// A histogram of durations.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HistogramValue {
    /// Count of each bucket alone, not cumulative. The last bucket has no upper bound.
    pub buckets: [u64; BOUNDS_MS.len() + 1],
    pub sum_seconds: f64,
}

impl HistogramValue {
    /// Upper bounds of all buckets but the last, in seconds.
    pub fn bounds() -> impl Iterator<Item = f64> {
        BOUNDS_MS.iter().map(|ms| float(*ms) / 1_000.0)
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub(crate) fn observe(&mut self, seconds: f64) {
        let bucket = Self::bounds().position(|bound| seconds <= bound).unwrap_or(BOUNDS_MS.len());
        self.buckets[bucket] += 1;
        self.sum_seconds += seconds;
    }
}

impl From<Histogram> for HistogramValue {
    fn from(counted: Histogram) -> Self {
        Self { buckets: counted.buckets, sum_seconds: float(counted.sum_ms) / 1_000.0 }
    }
}

impl Family {
    /// The help text, with the scope.
    #[must_use]
    pub fn help(&self) -> String {
        let whose = match self.metric.scope {
            Scope::Fleet => "of all servers on the store",
            Scope::Process => "of this process",
        };
        format!("{} ({whose})", self.metric.help)
    }

    /// The name as exported.
    #[must_use]
    pub fn name(&self) -> String {
        let total = if self.metric.kind == Kind::Counter { "_total" } else { "" };
        format!("{}{total}", self.metric.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_at_a_bound_is_in_its_bucket_and_larger_ones_are_in_the_last() {
        let mut times = HistogramValue::default();

        for seconds in [0.0, 0.001, 0.0011, 7_200.0, 7_200.1] {
            times.observe(seconds);
        }

        let [first, second, .., last_bound, beyond] = times.buckets;
        assert_eq!((first, second, last_bound, beyond, times.count()), (2, 1, 1, 1, 5));
        assert!((times.sum_seconds - 14_400.102_1).abs() < 1e-9);
    }
}
