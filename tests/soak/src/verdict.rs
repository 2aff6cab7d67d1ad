//! Whether anything grew: what was there at the end, next to what was there at the mark.
//!
//! Both are medians over a window and not single looks, since what is forgotten goes at intervals: between two of them
//! records and files add up. A window is longer than any such interval. There is no further leeway: looks are taken while
//! no life is under way, so that counts are whole and the same again, and one thing too many in twenty is seen.

use crate::quantity::Quantity;
use crate::record::Record;

/// The largest difference, as a share of what was there at the mark.
pub(crate) const BOUND: f64 = 0.05;

/// When is looked, in minutes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Windows {
    pub(crate) mark: f64,
    pub(crate) end: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) quantity: Quantity,
    pub(crate) at_mark: f64,
    pub(crate) at_end: f64,
}

impl Windows {
    /// How long each is: two minutes around a mark at five.
    pub(crate) fn length(self) -> f64 {
        self.mark * 0.4
    }

    fn around_mark(self, minutes: f64) -> bool {
        (minutes - self.mark).abs() <= self.length() / 2.0
    }

    fn before_end(self, minutes: f64) -> bool {
        minutes >= self.end - self.length()
    }
}

impl Verdict {
    /// None: nothing was seen in one of the windows.
    pub(crate) fn of(record: &Record, quantity: Quantity, windows: Windows) -> Option<Self> {
        let seen = record.of(quantity);
        let within = |is_in: &dyn Fn(f64) -> bool| {
            median(seen.iter().filter(|(minutes, _)| is_in(*minutes)).map(|(_, value)| *value).collect())
        };
        let at_mark = within(&|minutes| windows.around_mark(minutes))?;
        let at_end = within(&|minutes| windows.before_end(minutes))?;
        Some(Self { quantity, at_mark, at_end })
    }

    /// What was not there at the mark may not be there at the end.
    pub(crate) fn holds(&self) -> bool {
        !self.quantity.is_judged() || (self.at_end - self.at_mark).abs() <= self.at_mark * BOUND
    }

    pub(crate) fn line(&self) -> String {
        let change = match self.at_mark {
            0.0 if self.at_end == 0.0 => "none".to_owned(),
            0.0 => "from nothing".to_owned(),
            mark => format!("{:+.1} %", (self.at_end / mark - 1.0) * 100.0),
        };
        let word = match (self.quantity.is_judged(), self.holds()) {
            (false, _) => "",
            (true, true) => "holds",
            (true, false) => "DOES NOT HOLD",
        };
        let [mark, end] = [self.at_mark, self.at_end].map(|value| self.quantity.shown(value));
        format!("{:<38}{mark:>14}{end:>14}{change:>14}  {word}", self.quantity.name()).trim_end().to_owned()
    }
}

/// Of two in the middle, the mean.
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

    const WINDOWS: Windows = Windows { mark: 5.0, end: 30.0 };

    /// A look every six seconds.
    fn record(quantity: Quantity, value: impl Fn(f64) -> f64) -> Record {
        let minutes = (0..=300).map(|look| f64::from(look) / 10.0);
        let sample = |minutes| Sample { minutes, values: BTreeMap::from([(quantity, value(minutes))]) };
        Record { samples: minutes.map(sample).collect() }
    }

    fn verdict(quantity: Quantity, value: impl Fn(f64) -> f64) -> Verdict {
        Verdict::of(&record(quantity, value), quantity, WINDOWS).unwrap()
    }

    #[test]
    fn what_comes_to_rest_before_the_mark_holds() {
        let verdict = verdict(Quantity::Disk, |minutes| 1e6 * minutes.min(3.0));

        assert_eq!((verdict.at_mark, verdict.at_end), (3e6, 3e6));
        assert!(verdict.holds());
    }

    #[test]
    fn what_goes_up_and_down_between_sweeps_is_judged_by_its_middle() {
        let verdict = verdict(Quantity::Store, |minutes| 1e6 + 1e6 * minutes.fract());

        assert!((1.4e6..=1.6e6).contains(&verdict.at_mark), "{}", verdict.at_mark);
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
    fn what_became_less_by_as_much_does_not_hold_either() {
        assert!(!verdict(Quantity::Disk, |minutes| if minutes < 20.0 { 100.0 } else { 94.0 }).holds());
        assert!(verdict(Quantity::Disk, |minutes| if minutes < 20.0 { 100.0 } else { 95.0 }).holds());
    }

    #[test]
    fn one_thing_where_there_was_none_does_not_hold() {
        let left = verdict(Quantity::Devices, |minutes| f64::from(minutes > 20.0));

        assert!(!left.holds());
        assert!(left.line().contains("from nothing"));
        assert!(verdict(Quantity::Devices, |_| 0.0).holds());
    }

    #[test]
    fn how_hard_it_was_worked_is_not_judged() {
        assert!(verdict(Quantity::Rate, |minutes| minutes).holds());
    }

    #[test]
    fn without_a_look_in_a_window_there_is_no_verdict() {
        let early = record(Quantity::Disk, |_| 1.0);
        let early = Record { samples: early.samples.into_iter().filter(|it| it.minutes < 20.0).collect() };

        assert_eq!(Verdict::of(&early, Quantity::Disk, WINDOWS), None);
    }

    #[test]
    fn a_window_is_two_minutes_around_a_mark_at_five() {
        assert!(WINDOWS.around_mark(4.0) && WINDOWS.around_mark(6.0) && !WINDOWS.around_mark(6.1));
        assert!(WINDOWS.before_end(28.0) && !WINDOWS.before_end(27.9));
    }
}
