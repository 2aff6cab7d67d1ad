//! `pinfold run`: creates a sandbox, runs a command in it, cleans up, and exits with the command's code.

use std::process::ExitCode;

use pinfold_api::{ExecRequest, RunRequest};

use crate::GlobalOptions;
use crate::console::ConsoleOptions;
use crate::exit;
use crate::failure::{Failure, say};
use crate::follow::{Interrupt, explanation, follow};
use crate::json_output::{self, ExecutionReport, Timings, between};
use crate::options::SandboxOptions;
use crate::output::Sink;
use crate::progress::Progress;
use crate::stop::format_receipt;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    sandbox: SandboxOptions,
    #[command(flatten, next_help_heading = "Command options")]
    console: ConsoleOptions,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<String>,
}

/// Timeout for the proof that the sandbox is gone.
const PROOF_MS: u64 = 60_000;

/// If this process dies, the sandbox ends too: the keeper ends it when its creator is gone, and a server ends it when the
/// connection closes.
pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    options.console.check(global.json)?;
    let (backend, request) = options.sandbox.backend_and_request(global).await?;
    let exec = options.console.apply_to(ExecRequest::of(options.command.clone()));
    let request = RunRequest { sandbox: request, exec };
    let mut running = match options.sandbox.queue_request() {
        Some(queue) => queue.show_progress(&backend, backend.run(request, Some(queue))).await?,
        None => backend.run(request, None).await?,
    };
    let mut sink = Sink::of(global.json);
    let ended = follow(&backend, &mut running, &mut sink, Interrupt::Sandbox, &options.console).await?;
    let waiting = Progress::of("proving that the sandbox is gone");
    let (sandbox, execution) = (running.sandbox, running.execution);
    let gone = backend.wait_gone(&sandbox, PROOF_MS).await?;
    drop(waiting);
    let gone = gone.and_then(|it| it.receipt.clone().map(|receipt| (it, receipt)));
    let Some((sandbox, receipt)) = gone else { return Err(Failure::NotProvenGone { id: sandbox }.into()) };
    let execution = backend.execution(&execution).await?;
    backend.close().await?;
    match sink {
        Sink::Buffered { stdout, stderr, lost_bytes } => {
            let created = sandbox.created_at.as_deref();
            let (started, over) = (execution.started_at.as_deref(), execution.ended_at.as_deref());
            let proven = Some(receipt.verified_at.as_str());
            json_output::print(&ExecutionReport {
                sandbox_id: sandbox.id.clone(),
                execution_id: execution.execution_id.clone(),
                exit_code: ended.exit_code,
                cause: receipt.cause,
                detail: ended.detail.or(sandbox.start_failure),
                output: json_output::output(stdout, stderr, lost_bytes),
                usage: receipt.usage,
                timings: Timings {
                    ready_ms: between(created, sandbox.ready_at.as_deref()),
                    first_output_ms: between(created, ended.first_output_at.as_deref()),
                    run_ms: between(started, over),
                    gone_ms: between(over, proven),
                    total_ms: between(created, proven),
                },
                receipt: Some(receipt),
            })?;
        }
        Sink::Terminal => {
            if let Some(why) = explanation(&ended, sandbox.start_failure.clone()) {
                say(&format!("{} ended: {why}", sandbox.id));
            }
            if ended.interrupted {
                anstream::eprint!("{}", format_receipt(&receipt));
            }
        }
    }
    Ok(ExitCode::from(exit::code_of(ended.cause, ended.exit_code)))
}
