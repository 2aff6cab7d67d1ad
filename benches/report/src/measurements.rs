//! Measurements of one quantity.

use std::time::{Duration, Instant};

#[derive(Debug, Clone, Default)]
pub struct Measurements {
    taken: Vec<Duration>,
}

impl Measurements {
    pub fn add(&mut self, taken: Duration) {
        self.taken.push(taken);
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.taken.len()
    }

    #[must_use]
    pub fn sum(&self) -> Duration {
        self.taken.iter().sum()
    }

    #[must_use]
    pub fn p50(&self) -> Duration {
        self.percentile(50)
    }

    #[must_use]
    pub fn p99(&self) -> Duration {
        self.percentile(99)
    }

    /// The nearest-rank percentile; zero without measurements.
    fn percentile(&self, of_hundred: usize) -> Duration {
        let mut sorted = self.taken.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * of_hundred).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

impl Extend<Duration> for Measurements {
    fn extend<T: IntoIterator<Item = Duration>>(&mut self, more: T) {
        self.taken.extend(more);
    }
}

/// Two decimals, or three below one millisecond.
#[must_use]
pub fn milliseconds(duration: Duration) -> String {
    let ms = duration.as_secs_f64() * 1e3;
    if ms < 1.0 { format!("{ms:.3}") } else { format!("{ms:.2}") }
}

#[must_use]
#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(ms: impl IntoIterator<Item = u64>) -> Measurements {
        let mut figures = Measurements::default();
        figures.extend(ms.into_iter().map(Duration::from_millis));
        figures
    }

    #[test]
    fn percentiles_are_measurements_that_were_made() {
        let hundred = figures((1..=100).rev());

        assert_eq!(hundred.p50(), Duration::from_millis(50));
        assert_eq!(hundred.p99(), Duration::from_millis(99));
        assert_eq!(figures([7]).p99(), Duration::from_millis(7));
        assert_eq!(figures([]).p50(), Duration::ZERO);
    }

    #[test]
    fn little_is_printed_with_a_digit_more() {
        assert_eq!(milliseconds(Duration::from_micros(123)), "0.123");
        assert_eq!(milliseconds(Duration::from_micros(12_345)), "12.35");
    }
}
