//! What a run comes to: a table of builds and stages with their times and counts, the longest test programs, what
//! failed and what was skipped.

use std::fmt;
use std::time::{Duration, Instant};

use super::job::{Outcome, now};
use super::tally::Tally;

/// How many test programs are listed by time.
const LISTED: usize = 8;

pub(super) struct Summary {
    began: Instant,
    builds: Vec<(&'static str, Duration)>,
    stages: Vec<Row>,
    jobs: Vec<(String, Duration)>,
    failed_jobs: Vec<String>,
    skipped: Vec<String>,
}

struct Row {
    stage: &'static str,
    /// From the start of its first job to the end of its last one.
    span: Option<(Instant, Instant)>,
    tally: Tally,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            began: now(),
            builds: Vec::new(),
            stages: Vec::new(),
            jobs: Vec::new(),
            failed_jobs: Vec::new(),
            skipped: Vec::new(),
        }
    }
}

impl Summary {
    pub(super) fn add_build(&mut self, name: &'static str, took: Duration) {
        self.builds.push((name, took));
    }

    pub(super) fn add(&mut self, stage: &'static str, job: &str, outcome: &Outcome) {
        let row = self.row(stage);
        row.tally.add(outcome.tally);
        let end = outcome.began + outcome.took;
        let (first, last) = row.span.unwrap_or((outcome.began, end));
        row.span = Some((first.min(outcome.began), last.max(end)));
        if job != stage {
            self.jobs.push((job.to_owned(), outcome.took));
            if outcome.tally.failed > 0 {
                self.failed_jobs.push(job.to_owned());
            }
        }
        self.skipped.extend(outcome.skipped.iter().cloned());
    }

    pub(super) fn add_tally(&mut self, stage: &'static str, tally: Tally) {
        self.row(stage).tally.add(tally);
    }

    pub(super) fn total(&self) -> Tally {
        self.stages.iter().map(|row| row.tally).fold(Tally::default(), Tally::plus)
    }

    pub(super) fn tally_of(&self, stage: &str) -> Tally {
        self.stages.iter().find(|row| row.stage == stage).map(|row| row.tally).unwrap_or_default()
    }

    fn row(&mut self, stage: &'static str) -> &mut Row {
        let index = self.stages.iter().position(|row| row.stage == stage).unwrap_or_else(|| {
            self.stages.push(Row { stage, span: None, tally: Tally::default() });
            self.stages.len() - 1
        });
        &mut self.stages[index]
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut jobs = self.jobs.clone();
        jobs.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        writeln!(f, "\nlongest test programs")?;
        for (name, took) in jobs.iter().take(LISTED) {
            writeln!(f, "  {name:<36} {:>6} s", took.as_secs())?;
        }
        writeln!(
            f,
            "\n{:<38} {:>7} {:>7} {:>7} {:>7} {:>8}",
            "stage", "build", "run", "passed", "failed", "skipped"
        )?;
        for (name, took) in &self.builds {
            writeln!(f, "{:<38} {:>5} s", format!("build of {name}"), took.as_secs())?;
        }
        for Row { stage, span, tally } in &self.stages {
            let run = span.map_or("-".to_owned(), |(first, last)| format!("{} s", (last - first).as_secs()));
            let Tally { passed, failed, skipped } = tally;
            writeln!(f, "{stage:<38} {:>7} {run:>7} {passed:>7} {failed:>7} {skipped:>8}", "")?;
        }
        let took = self.began.elapsed().as_secs();
        writeln!(f, "all of it, side by side: {} min {:02} s\n", took / 60, took % 60)?;
        let failed = self.stages.iter().filter(|row| row.tally.failed > 0).map(|row| row.stage);
        let failed: Vec<&str> = failed.chain(self.failed_jobs.iter().map(String::as_str)).collect();
        if !failed.is_empty() {
            writeln!(f, "failed: {}", failed.join(", "))?;
        }
        self.skipped.iter().try_for_each(|line| writeln!(f, "skipped: {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(began: Instant, seconds: u64, failed: usize) -> Outcome {
        Outcome {
            succeeded: failed == 0,
            tally: Tally { passed: 2, failed, skipped: 0 },
            skipped: vec!["crash: no strace".to_owned()],
            output: String::new(),
            began,
            took: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn a_stage_lasts_from_its_first_job_to_its_last() {
        let (mut summary, noon) = (Summary::default(), now());
        summary.add_build("tests", Duration::from_secs(90));

        summary.add("tests", "crates/cli commands", &outcome(noon, 50, 0));
        summary.add("tests", "crates/logs logs", &outcome(noon + Duration::from_secs(10), 60, 1));
        summary.add("tidy", "tidy", &outcome(noon, 1, 0));

        let text = summary.to_string();
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        assert_eq!(row("build of tests").split_whitespace().skip(3).collect::<Vec<_>>(), ["90", "s"]);
        assert_eq!(row("tests").split_whitespace().collect::<Vec<_>>(), ["tests", "70", "s", "4", "1", "0"]);
        assert_eq!(row("failed:"), "failed: tests, crates/logs logs");
        assert_eq!(row("skipped:"), "skipped: crash: no strace");
        assert_eq!(summary.total(), Tally { passed: 6, failed: 1, skipped: 0 });
    }

    #[test]
    fn a_stage_that_could_not_start_is_listed() {
        let mut summary = Summary::default();

        summary.add_tally("attacks", Tally::of_one(false));

        assert!(summary.to_string().contains("failed: attacks"));
        assert_eq!(summary.tally_of("attacks").failed, 1);
    }
}
