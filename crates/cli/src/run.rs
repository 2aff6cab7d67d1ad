//! `pinfold run`: provision, execute, track, clean up, and exit as the command did.

use std::process::ExitCode;

use pinfold_api::{ExecRequest, RunRequest};

use crate::Place;
use crate::console::ConsoleOptions;
use crate::documents::{self, ExecutionDocument, Timings, between};
use crate::exit;
use crate::failure::{Failure, say};
use crate::following::{Interrupt, explanation, follow};
use crate::options::SandboxOptions;
use crate::output::Sink;
use crate::progress::Progress;
use crate::stop::tell_receipt;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    sandbox: SandboxOptions,
    #[command(flatten, next_help_heading = "The command")]
    console: ConsoleOptions,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// How long the proof that the sandbox is gone may take.
const PROOF_MS: u64 = 60_000;

/// Whoever made the sandbox ends it when this process is gone: the keeper, where that was this process, and else the
/// server, which sees the connection end.
pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    options.console.check(place.json)?;
    let (plane, wish) = options.sandbox.ask(place).await?;
    let exec = options.console.furnish(ExecRequest::of(options.command.clone()));
    let request = RunRequest { sandbox: wish, exec };
    let mut running = match options.sandbox.queueing() {
        Some(ticket) => ticket.shown(&plane, plane.run(request, Some(ticket))).await?,
        None => plane.run(request, None).await?,
    };
    let mut sink = Sink::of(place.json);
    let ended = follow(&plane, &mut running, &mut sink, Interrupt::Sandbox, &options.console).await?;
    let waiting = Progress::of("looking for what is left");
    let (sandbox, execution) = (running.sandbox, running.execution);
    let gone = plane.wait_gone(&sandbox, PROOF_MS).await?;
    drop(waiting);
    let gone = gone.and_then(|it| it.receipt.clone().map(|receipt| (it, receipt)));
    let Some((sandbox, receipt)) = gone else { return Err(Failure::NotProvenGone { id: sandbox }.into()) };
    let execution = plane.execution(&execution).await?;
    plane.close().await?;
    match sink {
        Sink::Kept { stdout, stderr, lost_bytes } => {
            let created = sandbox.created_at.as_deref();
            let (started, over) = (execution.started_at.as_deref(), execution.ended_at.as_deref());
            let proven = Some(receipt.verified_at.as_str());
            documents::print(&ExecutionDocument {
                sandbox_id: sandbox.id.clone(),
                execution_id: execution.execution_id.clone(),
                exit_code: ended.exit_code,
                cause: receipt.cause,
                detail: ended.detail.or(sandbox.start_failure),
                output: documents::output(stdout, stderr, lost_bytes),
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
                anstream::eprint!("{}", tell_receipt(&receipt));
            }
        }
    }
    Ok(ExitCode::from(exit::code_of(ended.cause, ended.exit_code)))
}
