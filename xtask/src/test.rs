//! Runs the stages of a test run and counts what passed, failed and was skipped. Builds, computations and tests that
//! wait run beside each other, each with its output printed whole when it ends. A stage that fails does not keep
//! the others from running: one run shows all there is to repair.

mod api;
mod http;
mod job;
mod machine;
mod needs;
mod power;
mod programs;
mod prometheus;
mod queue;
mod release;
mod run;
mod server;
mod skips;
mod stages;
mod summary;
mod tally;
mod v2;

use anyhow::{Context, Result};

pub(crate) use api::{Options as ApiOptions, run_with as run_api};
pub(crate) use power::{Options as PowerOptions, run_with as run_power};
pub(crate) use prometheus::run_alone as run_prometheus;
use run::Run;
use stages::{STAGES, Stage, TESTS_STAGE, What, When};
use tally::Tally;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Also what takes longer; then a skipped test, or no test at all, is a failure
    #[arg(long, conflicts_with = "filter")]
    all: bool,
    /// Run only the tests that the test harness selects by these words
    #[arg(last = true)]
    filter: Vec<String>,
}

#[derive(clap::Args)]
pub(crate) struct StageOptions {
    name: String,
}

/// Says whether the whole run is good. Its last line of output is the count.
pub(crate) fn run(options: &Options) -> Result<bool> {
    needs::install_what_is_missing(options.all);

    let summary = Run::begin(options)?.finish()?;

    print!("{summary}");
    let total = summary.total();
    let tests_ran = summary.tally_of(TESTS_STAGE).ran() > 0;
    if options.all && !tests_ran {
        println!("no test ran");
    }
    println!("{total}");
    let complete = total.skipped == 0 && tests_ran;
    Ok(total.failed == 0 && (complete || !options.all))
}

/// Runs one stage that is a function of this program, in a process that the test run started for it. The last line
/// of output is the count.
pub(crate) fn run_stage(options: &StageOptions) -> Result<bool> {
    let stage = STAGES.iter().find(|stage| stage.name == options.name).context("there is no such stage")?;
    let tally = match stage.what {
        What::Check(check) => check().map(Tally::of_one),
        What::Counted(count) => count(),
        What::TestPrograms | What::ServerTestsOnFake | What::CountedCargo(_) | What::Cargo(_) => {
            Ok(Tally::of_one(false))
        }
    };
    let tally = tally.unwrap_or_else(|error| {
        println!("{}: {error:#}", stage.name);
        Tally::of_one(false)
    });
    println!("{tally}");
    Ok(tally.failed == 0)
}

/// Runs only the stage on the emulated machine.
pub(crate) fn run_v2() -> Result<bool> {
    v2::run_alone()
}

impl Stage {
    /// A filter asks for some tests of the harness, and so for no other stage.
    fn is_wanted(&self, options: &Options) -> bool {
        if !options.filter.is_empty() {
            return self.name == TESTS_STAGE || matches!(self.what, What::CountedCargo(_));
        }
        match self.when {
            When::Always => true,
            When::OnlyAll => options.all,
            When::OnlyAllWhereInstalled(subcommand) => options.all && needs::has_cargo(subcommand),
        }
    }
}
