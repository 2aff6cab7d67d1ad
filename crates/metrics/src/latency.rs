//! Histograms of durations with fixed buckets, so that values of several minutes and servers can be added. Percentiles
//! are interpolated linearly within a bucket, as Prometheus does.

use crate::Counters;

/// The measured durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Latency {
    /// From the create request to ready.
    Create,
    /// From the request to the start of the process.
    ExecStart,
    /// From the decision to the proof of absence.
    Stop,
    /// From the cancel request to the proof that the process is gone.
    Cancel,
    Probe,
    Cleanup,
    /// From the start of the process to its end.
    Execution,
    /// From created to proven gone.
    Lifetime,
}

/// Upper bounds in milliseconds. One more bucket has no bound.
pub(crate) const BOUNDS_MS: [u64; 21] = [
    1, 2, 3, 5, 7, 10, 15, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000,
    1_800_000, 7_200_000,
];

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentiles {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

/// The durations of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Count of each bucket alone, not cumulative. The last bucket has no upper bound.
    pub(crate) buckets: [u64; BOUNDS_MS.len() + 1],
    pub(crate) sum_ms: u64,
}

impl Latency {
    /// The metric's name without its unit.
    pub(crate) fn metric(self) -> &'static str {
        match self {
            Self::Create => "pinfold_create",
            Self::ExecStart => "pinfold_exec_start",
            Self::Stop => "pinfold_stop",
            Self::Cancel => "pinfold_cancel",
            Self::Probe => "pinfold_probe",
            Self::Cleanup => "pinfold_cleanup",
            Self::Execution => "pinfold_execution",
            Self::Lifetime => "pinfold_sandbox_lifetime",
        }
    }
}

impl Counters {
    /// Records one duration.
    pub fn record(&mut self, what: Latency, labels: &[&str], ms: u64) {
        let bucket = BOUNDS_MS.iter().position(|bound| ms <= *bound).unwrap_or(BOUNDS_MS.len());
        self.count(&format!("{}.bucket{bucket:02}", what.metric()), labels);
        self.add(&format!("{}.ms", what.metric()), labels, ms);
    }

    /// The durations with these labels.
    #[must_use]
    pub fn histogram(&self, what: Latency, labels: &[&str]) -> Histogram {
        self.gather(what, |metric| self.get(metric, labels))
    }

    /// The durations of all labels together.
    #[must_use]
    pub fn total_histogram(&self, what: Latency) -> Histogram {
        self.gather(what, |metric| self.total(metric))
    }

    fn gather(&self, what: Latency, read: impl Fn(&str) -> u64) -> Histogram {
        let bucket = |number| read(&format!("{}.bucket{number:02}", what.metric()));
        Histogram { buckets: std::array::from_fn(bucket), sum_ms: read(&format!("{}.ms", what.metric())) }
    }
}

impl Histogram {
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Mean in seconds. `None`: no values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| float(self.sum_ms) / 1_000.0 / float(count))
    }

    /// Percentiles in seconds. `None`: no values.
    #[must_use]
    pub fn percentiles(&self) -> Option<Percentiles> {
        Some(Percentiles { p50: self.quantile(0.5)?, p95: self.quantile(0.95)?, p99: self.quantile(0.99)? })
    }

    fn quantile(&self, share: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = share * float(count);
        let (mut below, mut from_ms) = (0.0, 0.0);
        for (bucket, bound) in self.buckets.iter().zip(BOUNDS_MS) {
            let within = float(*bucket);
            if within > 0.0 && below + within >= rank {
                return Some((from_ms + (float(bound) - from_ms) * (rank - below) / within) / 1_000.0);
            }
            below += within;
            from_ms = float(bound);
        }
        // Beyond the last bound nothing more is known.
        Some(from_ms / 1_000.0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "values are shown with few digits")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(times_ms: &[u64]) -> Histogram {
        let mut counters = Counters::default();
        for ms in times_ms {
            counters.record(Latency::Create, &[], *ms);
        }
        counters.histogram(Latency::Create, &[])
    }

    #[test]
    fn empty_histogram_has_no_percentiles() {
        assert_eq!(timed(&[]).percentiles(), None);
        assert_eq!(timed(&[]).mean(), None);
    }

    #[test]
    fn percentiles_match_values_computed_by_hand() {
        // One bucket: in the middle, and near its end.
        let one = timed(&[20; 10]).percentiles().unwrap();
        assert_eq!((one.p50, one.p95, one.p99), (0.020, 0.0245, 0.0249));
        // Ranks 50, 95 and 99 of 100: at five ninths of (50, 100], in the middle and at nine tenths of (250, 500].
        let mut times = vec![80; 50];
        times.extend([90; 40]);
        times.extend([400; 10]);
        let three = timed(&times).percentiles().unwrap();
        assert!((three.p50 - 0.077_777_8).abs() < 1e-6, "{three:?}");
        assert_eq!((three.p95, three.p99), (0.375, 0.475));
    }

    #[test]
    fn value_beyond_the_last_bound_is_shown_as_the_last_bound() {
        let beyond = timed(&[100_000_000]);

        assert_eq!(beyond.percentiles().unwrap().p50, 7_200.0);
        assert_eq!(beyond.mean(), Some(100_000.0));
    }

    #[test]
    fn histograms_are_kept_by_label_and_in_total() {
        let mut counters = Counters::default();
        counters.record(Latency::Execution, &["a"], 1);
        counters.record(Latency::Execution, &["b"], 3);

        assert_eq!(counters.histogram(Latency::Execution, &["a"]).mean(), Some(0.001));
        assert_eq!(counters.total_histogram(Latency::Execution).mean(), Some(0.002));
    }
}
