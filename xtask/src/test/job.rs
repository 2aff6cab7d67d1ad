//! One process of a test run, with its output kept whole in a file, so that jobs beside each other do not mix theirs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::skips::{self, Skips};
use super::tally::Tally;

pub(super) struct Job {
    /// The stage it belongs to; none for a build.
    pub(super) stage: Option<&'static str>,
    pub(super) name: String,
    pub(super) command: Command,
    /// Where its standard output goes, if not to the log.
    pub(super) messages: Option<File>,
    pub(super) count: Count,
}

/// How to count the tests of a job.
#[derive(Clone, Copy)]
pub(super) enum Count {
    /// Not at all: a build.
    Nothing,
    /// The job is one test.
    ExitStatus,
    /// By the last result line: a test may print the output of another harness.
    LastResult,
    /// By all result lines: cargo runs several harnesses.
    EveryResult,
    /// By the last line, as `Tally` prints itself.
    LastLine,
}

pub(super) struct Outcome {
    pub(super) succeeded: bool,
    pub(super) tally: Tally,
    pub(super) skipped: Vec<String>,
    pub(super) output: String,
    pub(super) began: Instant,
    pub(super) took: Duration,
}

#[expect(clippy::disallowed_methods, reason = "how long a stage took is real time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

impl Job {
    /// Runs it to its end. `files` is a path for its files, without extension.
    pub(super) fn run(self, niceness: u8, files: &Path) -> Result<Outcome> {
        let log = files.with_extension("log");
        let mut skips = Skips::at(files.with_extension("skipped"))?;
        let began = now();
        let errors = File::create(&log).with_context(|| format!("could not create `{}`", log.display()))?;
        let output = match self.messages {
            Some(messages) => messages,
            None => errors.try_clone().context("could not share a log")?,
        };
        let mut command = with_niceness(&self.command, niceness);
        command.stdout(output).stderr(errors).stdin(Stdio::null()).env(skips::VARIABLE, skips.path());
        let status = command.status().with_context(|| format!("could not run {:?}", self.command))?;
        let took = began.elapsed();
        let output = fs::read(&log).with_context(|| format!("could not read `{}`", log.display()))?;
        let output = String::from_utf8_lossy(&output).into_owned();
        let mut tally = self.count.of(&output, status);
        tally.move_to_skipped(skips.new_lines()?);
        // The output is printed; a file left under target/ is not worth failing a run for.
        let _ = fs::remove_file(&log);
        Ok(Outcome {
            succeeded: status.success(),
            tally,
            skipped: skips.lines().to_vec(),
            output,
            began,
            took,
        })
    }
}

/// The same command by way of nice(1).
fn with_niceness(command: &Command, niceness: u8) -> Command {
    let mut nice = Command::new("nice");
    nice.arg(format!("-n{niceness}")).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        nice.current_dir(directory);
    }
    nice
}

impl Count {
    fn of(self, output: &str, status: ExitStatus) -> Tally {
        self.of_lines(output, status.success())
    }

    fn of_lines(self, output: &str, succeeded: bool) -> Tally {
        let mut results = output.lines().filter_map(Tally::from_harness_line);
        let counted = match self {
            Self::Nothing => return Tally::default(),
            Self::ExitStatus => return Tally::of_one(succeeded),
            Self::LastResult => results.next_back(),
            Self::EveryResult => Some(results.fold(Tally::default(), Tally::plus)),
            Self::LastLine => output.lines().next_back().and_then(Tally::from_display),
        };
        // A program that does not compile or dies on the way prints no result, or not its last one.
        match counted {
            Some(tally) if succeeded || tally.failed > 0 => tally,
            Some(tally) => tally.plus(Tally::of_one(false)),
            None => Tally::of_one(false),
        }
    }
}

/// Where the files of a run's jobs are.
pub(super) fn files(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("job-{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
    const INNER: &str = "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";

    fn tally(passed: usize, failed: usize) -> Tally {
        Tally { passed, failed, skipped: 0 }
    }

    #[test]
    fn a_harness_is_counted_by_its_last_result() {
        let output = format!("{INNER}\n{RESULT}\n");

        assert_eq!(Count::LastResult.of_lines(&output, true), tally(3, 0));
        assert_eq!(Count::EveryResult.of_lines(&output, false), tally(4, 1));
    }

    #[test]
    fn a_harness_that_dies_has_failed_whatever_it_printed() {
        for count in [Count::LastResult, Count::EveryResult] {
            assert_eq!(count.of_lines(RESULT, false), tally(3, 1));
        }
        assert_eq!(Count::LastResult.of_lines("it exits early", true), tally(0, 1));
        assert_eq!(Count::LastLine.of_lines("thread panicked", true), tally(0, 1));
    }

    #[test]
    fn a_stage_is_counted_by_what_it_says_at_its_end() {
        let output = format!("{INNER}\n{}\n", Tally { passed: 7, failed: 0, skipped: 2 });

        assert_eq!(Count::LastLine.of_lines(&output, true), Tally { passed: 7, failed: 0, skipped: 2 });
    }

    #[test]
    fn the_output_and_the_skips_of_a_process_are_kept() {
        let directory = std::env::temp_dir().join(format!("pinfold-job-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("echo '{RESULT}'; echo no tool >> $PINFOLD_SKIPPED_TESTS; echo end >&2")]);
        let job = Job { stage: None, name: "it".into(), command, messages: None, count: Count::LastResult };

        let outcome = job.run(10, &files(&directory, 1)).unwrap();

        assert_eq!(outcome.tally, Tally { passed: 2, failed: 0, skipped: 1 });
        assert_eq!(outcome.output, format!("{RESULT}\nend\n"));
        assert_eq!(outcome.skipped, ["no tool"]);
        assert!(fs::read_dir(&directory).unwrap().next().is_none());
        fs::remove_dir(&directory).unwrap();
    }
}
