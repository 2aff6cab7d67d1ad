//! `pinfold exec`: runs a command in an existing sandbox.

use std::process::ExitCode;

use pinfold_api::ExecRequest;

use crate::GlobalOptions;
use crate::backend::Backend;
use crate::console::ConsoleOptions;
use crate::environment::EnvironmentOptions;
use crate::exit;
use crate::failure::{Failure, say};
use crate::find::find;
use crate::follow::{Ended, Interrupt, explanation, follow};
use crate::json_output::{self, ExecutionReport, Timings, between};
use crate::output::Sink;
use crate::units::{milliseconds, milliseconds_or_off};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Stop the command after this time, instead of the profile's timeout: seconds, or 90s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = milliseconds, allow_hyphen_values = true)]
    timeout: Option<u64>,
    /// Stop the command when it wrote nothing for this time; 0 or `off`: never
    #[arg(long, value_name = "TIME", value_parser = milliseconds_or_off, allow_hyphen_values = true)]
    inactivity_timeout: Option<u64>,
    #[command(flatten)]
    environment: EnvironmentOptions,
    /// Working directory in the sandbox
    #[arg(long, value_name = "PATH")]
    workdir: Option<String>,
    #[command(flatten)]
    console: ConsoleOptions,
    /// The sandbox: its id, a unique prefix of the id, or its name
    sandbox: String,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<String>,
}

impl Options {
    /// A command attached to the local terminal.
    pub(crate) fn at_terminal(sandbox: String, command: Vec<String>) -> Self {
        Self {
            timeout: None,
            inactivity_timeout: None,
            environment: EnvironmentOptions::default(),
            workdir: None,
            console: ConsoleOptions::terminal(),
            sandbox,
            command,
        }
    }
}

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    options.console.check(global.json)?;
    let request = request(options)?;
    let backend = Backend::open(global).await?;
    let sandbox = find(&backend, &options.sandbox).await?;
    let mut running = backend.exec(&sandbox, &request).await?;
    let mut sink = Sink::of(global.json);
    let ended = follow(&backend, &mut running, &mut sink, Interrupt::Execution, &options.console).await?;
    let code = ExitCode::from(exit::code_of(ended.cause, ended.exit_code));
    let printed = match sink {
        Sink::Buffered { stdout, stderr, lost_bytes } => {
            let output = json_output::output(stdout, stderr, lost_bytes);
            let ids = (running.sandbox.as_str(), running.execution.as_str());
            json_output::print(&document(&backend, ids, ended, output).await?)
        }
        Sink::Terminal => {
            if let Some(why) = explanation(&ended, None) {
                say(&format!("{} ended: {why}", running.execution));
            }
            Ok(())
        }
    };
    backend.close().await?;
    printed.map(|()| code)
}

fn request(options: &Options) -> Result<ExecRequest, Failure> {
    Ok(options.console.apply_to(ExecRequest {
        env: options.environment.read()?,
        workdir: options.workdir.clone(),
        timeout_ms: options.timeout,
        inactivity_ms: options.inactivity_timeout,
        ..ExecRequest::of(options.command.clone())
    }))
}

async fn document(
    backend: &Backend,
    (sandbox, execution): (&str, &str),
    ended: Ended,
    output: pinfold_api::Output,
) -> anyhow::Result<ExecutionReport> {
    let sandbox = backend.sandbox(sandbox).await?;
    let execution = backend.execution(execution).await?;
    let run_ms = between(execution.started_at.as_deref(), execution.ended_at.as_deref());
    let first_output_ms = between(Some(&execution.asked_at), ended.first_output_at.as_deref());
    Ok(ExecutionReport {
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
