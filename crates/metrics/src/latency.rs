//! How long things take, counted in fixed buckets, so that the minutes of several servers add up. A percentile is
//! read as Prometheus does: within its bucket, evenly spread.

use crate::Sums;

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Latency {
    /// From the wish to ready.
    Create,
    /// From the wish to a process.
    ExecStart,
    /// From the decision to the proof that it is gone.
    Stop,
    /// From the wish that an execution ends to the proof that it did.
    Cancel,
    Probe,
    Cleanup,
    /// From the process to its end.
    Execution,
    /// From created to proven gone.
    Lifetime,
}

/// In milliseconds. What takes longer is in one bucket more.
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

/// What was timed of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Each bucket by itself; the last is for what no bound holds.
    pub(crate) buckets: [u64; BOUNDS_MS.len() + 1],
    pub(crate) sum_ms: u64,
}

impl Latency {
    /// As it is told, without unit.
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

impl Sums {
    /// Something took so long.
    pub fn took(&mut self, what: Latency, labels: &[&str], ms: u64) {
        let bucket = BOUNDS_MS.iter().position(|bound| ms <= *bound).unwrap_or(BOUNDS_MS.len());
        self.count(&format!("{}.bucket{bucket:02}", what.metric()), labels);
        self.add(&format!("{}.ms", what.metric()), labels, ms);
    }

    /// Of those with these labels.
    #[must_use]
    pub fn times(&self, what: Latency, labels: &[&str]) -> Histogram {
        self.gather(what, |metric| self.get(metric, labels))
    }

    /// Whatever their labels say.
    #[must_use]
    pub fn all_times(&self, what: Latency) -> Histogram {
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

    /// In seconds. None: there was none.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| float(self.sum_ms) / 1_000.0 / float(count))
    }

    /// In seconds. None: there was none.
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

#[expect(clippy::cast_precision_loss, reason = "figures for people, far from where it matters")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(times_ms: &[u64]) -> Histogram {
        let mut sums = Sums::default();
        for ms in times_ms {
            sums.took(Latency::Create, &[], *ms);
        }
        sums.times(Latency::Create, &[])
    }

    #[test]
    fn nothing_timed_has_no_percentiles() {
        assert_eq!(timed(&[]).percentiles(), None);
        assert_eq!(timed(&[]).mean(), None);
    }

    #[test]
    fn percentiles_are_those_worked_out_by_hand() {
        // One bucket: half-way, and nearly at its end.
        let one = timed(&[20; 10]).percentiles().unwrap();
        assert_eq!((one.p50, one.p95, one.p99), (0.020, 0.0245, 0.0249));
        // Ranks 50, 95 and 99 of 100: at the end of (50, 100], half-way and nine tenths into (250, 500].
        let mut times = vec![80; 50];
        times.extend([90; 40]);
        times.extend([400; 10]);
        let three = timed(&times).percentiles().unwrap();
        assert!((three.p50 - 0.077_777_8).abs() < 1e-6, "{three:?}");
        assert_eq!((three.p95, three.p99), (0.375, 0.475));
    }

    #[test]
    fn what_no_bound_holds_is_told_as_the_last_bound() {
        let beyond = timed(&[100_000_000]);

        assert_eq!(beyond.percentiles().unwrap().p50, 7_200.0);
        assert_eq!(beyond.mean(), Some(100_000.0));
    }

    #[test]
    fn times_with_other_labels_are_apart_and_together() {
        let mut sums = Sums::default();
        sums.took(Latency::Execution, &["a"], 1);
        sums.took(Latency::Execution, &["b"], 3);

        assert_eq!(sums.times(Latency::Execution, &["a"]).mean(), Some(0.001));
        assert_eq!(sums.all_times(Latency::Execution).mean(), Some(0.002));
    }
}
