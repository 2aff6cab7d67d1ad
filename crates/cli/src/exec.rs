//! `pinfold exec`: a command in a sandbox that is there, from any process.

use std::process::ExitCode;

use pinfold_api::ExecRequest;

use crate::Place;
use crate::console::ConsoleOptions;
use crate::documents::{self, ExecutionDocument, Timings, between};
use crate::exit;
use crate::failure::say;
use crate::find::find;
use crate::following::{Ended, Interrupt, explanation, follow};
use crate::output::Sink;
use crate::plane::Plane;
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
    let plane = Plane::open(place).await?;
    let sandbox = find(&plane, &options.sandbox).await?;
    let mut running = plane.exec(&sandbox, &request(options)).await?;
    let mut sink = Sink::of(place.json);
    let ended = follow(&plane, &mut running, &mut sink, Interrupt::Execution, &options.console).await?;
    let code = ExitCode::from(exit::code_of(ended.cause, ended.exit_code));
    let told = match sink {
        Sink::Kept { stdout, stderr, lost_bytes } => {
            let output = documents::output(stdout, stderr, lost_bytes);
            let ids = (running.sandbox.as_str(), running.execution.as_str());
            documents::print(&document(&plane, ids, ended, output).await?)
        }
        Sink::Terminal => {
            if let Some(why) = explanation(&ended, None) {
                say(&format!("{} ended: {why}", running.execution));
            }
            Ok(())
        }
    };
    plane.close().await?;
    told.map(|()| code)
}

fn request(options: &Options) -> ExecRequest {
    options.console.furnish(ExecRequest {
        env: options.env.iter().cloned().collect(),
        workdir: options.workdir.clone(),
        timeout_ms: options.timeout,
        inactivity_ms: options.inactivity_timeout,
        ..ExecRequest::of(options.command.clone())
    })
}

async fn document(
    plane: &Plane,
    (sandbox, execution): (&str, &str),
    ended: Ended,
    output: pinfold_api::Output,
) -> anyhow::Result<ExecutionDocument> {
    let sandbox = plane.sandbox(sandbox).await?;
    let execution = plane.execution(execution).await?;
    let run_ms = between(execution.started_at.as_deref(), execution.ended_at.as_deref());
    let first_output_ms = between(Some(&execution.asked_at), ended.first_output_at.as_deref());
    Ok(ExecutionDocument {
        sandbox_id: sandbox.id,
        execution_id: execution.execution_id,
        exit_code: ended.exit_code,
        cause: ended.cause,
        detail: ended.detail,
        output,
        usage: sandbox.usage,
        timings: Timings { first_output_ms, run_ms, total_ms: run_ms, ..Timings::default() },
        receipt: sandbox.receipt,
    })
}
