//! One metric with all that is known of it at one moment. Whoever tells figures, in whatever language, goes by these.

use crate::latency::{BOUNDS_MS, Histogram, float};
use crate::{Kind, Metric, Scope};

#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    pub metric: &'static Metric,
    pub points: Vec<Point>,
}

/// The labels are in the order of the metric's own.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub labels: Vec<String>,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Number(f64),
    Times(Times),
}

/// How long things took.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Times {
    /// Each bucket by itself; the last is for what no bound holds.
    pub buckets: [u64; BOUNDS_MS.len() + 1],
    pub sum_seconds: f64,
}

impl Times {
    /// The upper bounds of all buckets but the last, in seconds.
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

impl From<Histogram> for Times {
    fn from(counted: Histogram) -> Self {
        Self { buckets: counted.buckets, sum_seconds: float(counted.sum_ms) / 1_000.0 }
    }
}

impl Family {
    /// What it means, and whose it is.
    #[must_use]
    pub fn help(&self) -> String {
        let whose = match self.metric.scope {
            Scope::Fleet => "of all servers on the store",
            Scope::Process => "of this process",
        };
        format!("{} ({whose})", self.metric.help)
    }

    /// As its figures are called where they are read.
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
    fn what_takes_as_long_as_a_bound_is_within_it_and_what_no_bound_holds_is_in_the_last() {
        let mut times = Times::default();

        for seconds in [0.0, 0.001, 0.0011, 7_200.0, 7_200.1] {
            times.observe(seconds);
        }

        let [first, second, .., last_bound, beyond] = times.buckets;
        assert_eq!((first, second, last_bound, beyond, times.count()), (2, 1, 1, 1, 5));
        assert!((times.sum_seconds - 14_400.102_1).abs() < 1e-9);
    }
}
