//! `pinfold exec`: a command in a sandbox that is there, from any process.

use std::process::ExitCode;

use pinfold_engine::{OnExit, Stop};
use pinfold_lifecycle::profile::{DEFAULT, Wishes};
use pinfold_lifecycle::{
    Command, ExecutionId, ExecutionKind, ExecutionLimits, Life, Outcome, SandboxId, Used,
};
use pinfold_store::{Row, Stored};

use crate::Place;
use crate::console::ConsoleOptions;
use crate::documents::{self, ExecutionDocument, OutputDocument, ReceiptDocument, Timings};
use crate::exit;
use crate::failure::Failure;
use crate::find::find;
use crate::following::{Interrupt, Story, between, explanation, follow, wall_ms};
use crate::host::{Host, begin};
use crate::output::{Follower, Sink};
use crate::quantities::{milliseconds, pair};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// End it after so long instead of what the sandbox's profile says: seconds, or 90s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    timeout: Option<u64>,
    /// End it when it wrote nothing for so long
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    inactivity_timeout: Option<u64>,
    /// A variable of its environment; may be given again
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Where it starts inside
    #[arg(long, value_name = "PATH")]
    workdir: Option<String>,
    #[command(flatten)]
    console: ConsoleOptions,
    /// The sandbox: its id, a beginning of it that is no other's, or its name
    sandbox: String,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

impl Options {
    /// A command at the terminal here.
    pub(crate) fn at_terminal(sandbox: String, command: Vec<String>, env: Vec<(String, String)>) -> Self {
        Self {
            timeout: None,
            inactivity_timeout: None,
            env,
            workdir: None,
            console: ConsoleOptions::terminal(),
            sandbox,
            command,
        }
    }
}

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    options.console.check(place.json)?;
    let host = begin(place).await?;
    let stored = match find(&host.store, &options.sandbox).await? {
        Row::Readable(stored) => stored,
        Row::Unreadable(row) => anyhow::bail!("the record of {} cannot be read: {}", row.id, row.why),
    };
    must_be_wanted(&stored)?;
    let sandbox = stored.sandbox.id;
    let limits = limits(options, &stored)?;
    let began_ms = wall_ms();
    let execution = host.engine.execute(sandbox, command(options), ExecutionKind::Run, limits, true).await?;
    let output = host.provider.output_of(sandbox, execution);
    let mut follower = Follower::new(output, Sink::of(place.json));
    let outcome =
        follow(&host, (sandbox, execution), &mut follower, Interrupt::Execution, &options.console).await?;
    let first_output_ms = follower.first_at_ms.map(|at| u64::try_from(at - began_ms).unwrap_or(0));
    let told = match follower.into_sink() {
        Sink::Kept { stdout, stderr } => {
            let output = OutputDocument::of(stdout, stderr);
            let document = document(&host, (sandbox, execution), &outcome, output, first_output_ms).await?;
            documents::print(&document)
        }
        Sink::Terminal => {
            if let Some(why) = explanation(&outcome, None) {
                eprintln!("pinfold: {execution} ended: {why}");
            }
            Ok(())
        }
    };
    host.engine.shutdown(OnExit::Keep, 0).await?;
    told.map(|()| ExitCode::from(exit::code_of(&outcome)))
}

fn must_be_wanted(stored: &Stored) -> Result<(), Failure> {
    let id = stored.sandbox.id;
    match stored.sandbox.life {
        Life::Wanted => Ok(()),
        Life::Ending { cause, .. } => Err(Failure::Ending { id, cause }),
        Life::Ended { cause, .. } => Err(Failure::Gone { id, cause }),
    }
}

/// Checked as for a new sandbox, against this one's own life.
fn limits(options: &Options, stored: &Stored) -> anyhow::Result<ExecutionLimits> {
    let execution =
        ExecutionLimits { timeout_ms: options.timeout, inactivity_ms: options.inactivity_timeout };
    DEFAULT.with(&Wishes { execution, ..Wishes::default() }, &stored.policy)?;
    Ok(execution)
}

fn command(options: &Options) -> Command {
    let env = options.env.iter().cloned().collect();
    let command = Command {
        argv: options.command.clone(),
        env,
        workdir: options.workdir.clone(),
        ..Command::default()
    };
    options.console.furnish(command)
}

async fn document(
    host: &Host,
    (sandbox, execution): (SandboxId, ExecutionId),
    outcome: &Outcome,
    output: OutputDocument,
    first_output_ms: Option<u64>,
) -> anyhow::Result<ExecutionDocument> {
    let story = Story::of(host, sandbox).await?;
    let run_ms = between(story.started(execution), story.ended(execution));
    let (usage, receipt) = match host.engine.wait_gone(sandbox, 0).await? {
        Stop::Gone { cause, receipt } => (receipt.used, Some(ReceiptDocument::of(sandbox, cause, &receipt))),
        Stop::Pending => (usage(host, sandbox).await, None),
    };
    Ok(ExecutionDocument {
        sandbox_id: sandbox,
        execution_id: execution,
        exit_code: outcome.exit_code,
        cause: outcome.cause,
        detail: outcome.detail.clone(),
        output,
        usage,
        timings: Timings { first_output_ms, run_ms, total_ms: run_ms, ..Timings::default() },
        receipt,
    })
}

/// Of the whole sandbox so far. None where it cannot be asked any more.
async fn usage(host: &Host, sandbox: SandboxId) -> Option<Used> {
    let usage = host.engine.usage(sandbox).await.ok()?;
    Some(Used {
        cpu_ms: usage.cpu_ms,
        memory_peak_bytes: usage.memory_peak_bytes,
        io_read_bytes: usage.io_read_bytes,
        io_written_bytes: usage.io_written_bytes,
    })
}
