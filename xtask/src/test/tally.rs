//! How many tests passed, failed and were skipped.

use std::fmt;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
}

impl Tally {
    pub(super) fn of_one(passed: bool) -> Self {
        Self { passed: usize::from(passed), failed: usize::from(!passed), skipped: 0 }
    }

    /// Reads a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; …`.
    pub(super) fn from_harness_line(line: &str) -> Option<Self> {
        let (_verdict, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count_of = |what: &str| {
            counts.split("; ").find_map(|count| count.strip_suffix(what)?.trim_end().parse().ok())
        };
        Some(Self { passed: count_of("passed")?, failed: count_of("failed")?, skipped: count_of("ignored")? })
    }

    /// Reads what `Display` prints.
    pub(super) fn from_display(line: &str) -> Option<Self> {
        let mut counts = line.split(", ").map(|count| count.split_once(' '));
        let mut next = |what: &str| {
            let (count, named) = counts.next()??;
            (named == what).then(|| count.parse().ok())?
        };
        Some(Self { passed: next("passed")?, failed: next("failed")?, skipped: next("skipped")? })
    }

    pub(super) fn plus(mut self, other: Self) -> Self {
        self.add(other);
        self
    }

    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// A test that skips itself returns early, which its harness takes for a pass.
    pub(super) fn move_to_skipped(&mut self, tests: usize) {
        self.passed = self.passed.saturating_sub(tests);
        self.skipped += tests;
    }

    pub(super) fn ran(self) -> usize {
        self.passed + self.failed
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_line_is_counted() {
        let line = "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.01s";

        let tally = Tally::from_harness_line(line);

        assert_eq!(tally, Some(Tally { passed: 3, failed: 2, skipped: 1 }));
    }

    #[test]
    fn other_lines_are_not_counted() {
        for line in
            ["running 3 tests", "test result: ok.", "test a::b ... ok", "note: test result: ok. 1 passed"]
        {
            assert_eq!(Tally::from_harness_line(line), None, "{line}");
        }
    }

    #[test]
    fn a_test_that_skipped_itself_is_not_a_pass() {
        let mut tally = Tally { passed: 5, failed: 1, skipped: 0 };

        tally.move_to_skipped(2);

        assert_eq!(tally, Tally { passed: 3, failed: 1, skipped: 2 });
    }

    #[test]
    fn the_closing_line_counts_all_three() {
        let mut total = Tally::of_one(true);

        total.add(Tally::of_one(false));

        assert_eq!(total.to_string(), "1 passed, 1 failed, 0 skipped");
        assert_eq!(Tally::from_display(&total.to_string()), Some(total));
        assert_eq!(Tally::from_display("1 passed, 1 skipped, 0 failed"), None);
    }
}
