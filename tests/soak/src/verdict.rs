//! Whether anything grew: compares the end with the baseline.
//!
//! Both are medians over a window, not single samples, since retention runs at intervals and records and files add
//! up in between. A window is longer than such an interval. There is no further tolerance: samples are taken while
//! no cycle is running, so that counts are exact, and one leak in twenty cycles is found.

use crate::quantity::Quantity;
use crate::record::Record;

/// Largest difference, as a fraction of the baseline.
pub(crate) const BOUND: f64 = 0.05;

/// Positions of the two windows, in minutes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Windows {
    pub(crate) baseline: f64,
    pub(crate) end: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) quantity: Quantity,
    pub(crate) at_baseline: f64,
    pub(crate) at_end: f64,
}

impl Windows {
    /// Length of each window: two minutes around a baseline at five.
    pub(crate) fn length(self) -> f64 {
        self.baseline * 0.4
    }

    fn around_baseline(self, minutes: f64) -> bool {
        (minutes - self.baseline).abs() <= self.length() / 2.0
    }

    fn before_end(self, minutes: f64) -> bool {
        minutes >= self.end - self.length()
    }
}

impl Verdict {
    /// None: a window has no sample.
    pub(crate) fn of(record: &Record, quantity: Quantity, windows: Windows) -> Option<Self> {
        let seen = record.of(quantity);
        let within = |is_in: &dyn Fn(f64) -> bool| {
            median(seen.iter().filter(|(minutes, _)| is_in(*minutes)).map(|(_, value)| *value).collect())
        };
        let at_baseline = within(&|minutes| windows.around_baseline(minutes))?;
        let at_end = within(&|minutes| windows.before_end(minutes))?;
        Some(Self { quantity, at_baseline, at_end })
    }

    /// A baseline of zero must stay zero.
    pub(crate) fn holds(&self) -> bool {
        !self.quantity.is_bounded() || (self.at_end - self.at_baseline).abs() <= self.at_baseline * BOUND
    }

    pub(crate) fn line(&self) -> String {
        let change = match self.at_baseline {
            0.0 if self.at_end == 0.0 => "none".to_owned(),
            0.0 => "from nothing".to_owned(),
            baseline => format!("{:+.1} %", (self.at_end / baseline - 1.0) * 100.0),
        };
        let word = match (self.quantity.is_bounded(), self.holds()) {
            (false, _) => "",
            (true, true) => "holds",
            (true, false) => "DOES NOT HOLD",
        };
        let [baseline, end] = [self.at_baseline, self.at_end].map(|value| self.quantity.format(value));
        format!("{:<38}{baseline:>14}{end:>14}{change:>14}  {word}", self.quantity.name())
            .trim_end()
            .to_owned()
    }
}

/// The mean of the two middle values if their number is even.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    let is_even = values.len().is_multiple_of(2);
    Some(if is_even { f64::midpoint(values[middle - 1], upper) } else { upper })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::Sample;

    const WINDOWS: Windows = Windows { baseline: 5.0, end: 30.0 };

    /// A sample every six seconds.
    fn record(quantity: Quantity, value: impl Fn(f64) -> f64) -> Record {
        let minutes = (0..=300).map(|sample| f64::from(sample) / 10.0);
        let sample = |minutes| Sample { minutes, values: BTreeMap::from([(quantity, value(minutes))]) };
        Record { samples: minutes.map(sample).collect() }
    }

    fn verdict(quantity: Quantity, value: impl Fn(f64) -> f64) -> Verdict {
        Verdict::of(&record(quantity, value), quantity, WINDOWS).unwrap()
    }

    #[test]
    fn a_value_that_is_stable_before_the_baseline_holds() {
        let verdict = verdict(Quantity::Disk, |minutes| 1e6 * minutes.min(3.0));

        assert_eq!((verdict.at_baseline, verdict.at_end), (3e6, 3e6));
        assert!(verdict.holds());
    }

    #[test]
    fn a_value_that_oscillates_between_sweeps_is_compared_by_its_median() {
        let verdict = verdict(Quantity::Store, |minutes| 1e6 + 1e6 * minutes.fract());

        assert!((1.4e6..=1.6e6).contains(&verdict.at_baseline), "{}", verdict.at_baseline);
        assert!(verdict.holds());
    }

    #[test]
    fn a_slow_leak_does_not_hold() {
        let leak = |minutes: f64| 100.0 + 0.22 * minutes;

        let verdict = verdict(Quantity::ServerMemory, leak);

        assert!(!verdict.holds());
        assert!(verdict.line().ends_with("+5.2 %  DOES NOT HOLD"), "{}", verdict.line());
    }

    #[test]
    fn a_decrease_beyond_the_bound_does_not_hold_either() {
        assert!(!verdict(Quantity::Disk, |minutes| if minutes < 20.0 { 100.0 } else { 94.0 }).holds());
        assert!(verdict(Quantity::Disk, |minutes| if minutes < 20.0 { 100.0 } else { 95.0 }).holds());
    }

    #[test]
    fn growth_from_zero_does_not_hold() {
        let left = verdict(Quantity::Devices, |minutes| f64::from(minutes > 20.0));

        assert!(!left.holds());
        assert!(left.line().contains("from nothing"));
        assert!(verdict(Quantity::Devices, |_| 0.0).holds());
    }

    #[test]
    fn load_quantities_have_no_bound() {
        assert!(verdict(Quantity::Rate, |minutes| minutes).holds());
    }

    #[test]
    fn without_a_sample_in_a_window_there_is_no_verdict() {
        let early = record(Quantity::Disk, |_| 1.0);
        let early = Record { samples: early.samples.into_iter().filter(|it| it.minutes < 20.0).collect() };

        assert_eq!(Verdict::of(&early, Quantity::Disk, WINDOWS), None);
    }

    #[test]
    fn a_window_is_two_minutes_around_a_baseline_at_five() {
        assert!(
            WINDOWS.around_baseline(4.0) && WINDOWS.around_baseline(6.0) && !WINDOWS.around_baseline(6.1)
        );
        assert!(WINDOWS.before_end(28.0) && !WINDOWS.before_end(27.9));
    }
}
