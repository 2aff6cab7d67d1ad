//! Parses the machine's console: lines of the test harness, and those of its init script.

use anyhow::{Result, bail};

use crate::test::tally::Tally;

#[derive(Debug, Default)]
pub(super) struct Verdict {
    counted: Tally,
    /// Test programs that have ended.
    ended: usize,
    skipped: usize,
    /// The last result line of the current test program: a test may print the output of another harness.
    result: Option<Tally>,
    is_done: bool,
}

impl Verdict {
    pub(super) fn take_line(&mut self, line: &str) {
        if let Some(tally) = Tally::from_harness_line(line) {
            self.result = Some(tally);
            return;
        }
        let Some(said) = line.strip_prefix("machine: ") else { return };
        match said.split_once(' ').unwrap_or((said, "")) {
            ("begin", _) => self.result = None,
            ("end", how) => {
                self.ended += 1;
                // A test program that crashed or did not start prints no result, or not its last one.
                let result = self.result.take().filter(|it| it.failed > 0 || how.ends_with(" 0"));
                self.counted.add(result.unwrap_or(Tally::of_one(false)));
            }
            ("check", how) => self.counted.add(Tally::of_one(how.ends_with(" ok"))),
            ("left", _) => self.counted.add(Tally::of_one(false)),
            ("skipped", _) => self.skipped += 1,
            ("done", _) => self.is_done = true,
            _ => {}
        }
    }

    /// Fails if the machine did not run to its end.
    pub(super) fn tally(mut self, test_programs: usize) -> Result<Tally> {
        if self.ended == 0 {
            bail!("the machine ran no test program");
        }
        if !self.is_done || self.ended != test_programs {
            println!("the machine ended before its last word");
            self.counted.add(Tally::of_one(false));
        }
        self.counted.move_to_skipped(self.skipped);
        Ok(self.counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(lines: &[&str], test_programs: usize) -> Result<Tally> {
        let mut verdict = Verdict::default();
        lines.iter().for_each(|line| verdict.take_line(line));
        verdict.tally(test_programs)
    }

    const RESULT: &str = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";

    #[test]
    fn tests_checks_and_skips_are_counted() {
        let lines = [
            "machine: begin limits",
            RESULT,
            "machine: end limits 0",
            "machine: check a run by root: ok",
            "machine: check a run by a user: failed with 125",
            "machine: skipped limits: no perl",
            "machine: done",
        ];

        assert_eq!(heard(&lines, 1).unwrap(), Tally { passed: 3, failed: 1, skipped: 1 });
    }

    #[test]
    fn a_test_program_that_dies_without_a_result_has_failed() {
        let dead = ["machine: begin limits", "machine: end limits 139", "machine: done"];
        let later = ["machine: begin a", RESULT, "machine: end a 0"];

        assert_eq!(heard(&dead, 1).unwrap(), Tally::of_one(false));
        assert_eq!(
            heard(&[&later[..], &dead].concat(), 2).unwrap(),
            Tally { passed: 3, failed: 1, skipped: 0 }
        );
    }

    #[test]
    fn test_results_in_the_output_of_a_test_are_not_counted() {
        let inner = "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";
        let lines = ["machine: begin a", inner, RESULT, "machine: end a 0", "machine: done"];

        assert_eq!(heard(&lines, 1).unwrap(), Tally { passed: 3, failed: 0, skipped: 0 });
    }

    #[test]
    fn a_machine_that_stops_on_the_way_has_failed() {
        let begun = ["machine: begin limits", RESULT, "machine: end limits 0"];

        assert_eq!(heard(&begun, 1).unwrap().failed, 1);
        assert!(heard(&["Kernel panic"], 1).is_err());
    }

    #[test]
    fn a_group_that_is_left_behind_is_a_failure() {
        let lines =
            ["machine: begin a", RESULT, "machine: end a 0", "machine: left /x/pinfold.1", "machine: done"];

        assert_eq!(heard(&lines, 1).unwrap().failed, 1);
    }
}
