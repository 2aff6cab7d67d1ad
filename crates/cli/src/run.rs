//! `pinfold run`: provision, execute, track, clean up, and exit as the command did.

use std::process::ExitCode;

use pinfold_engine::{CreateAsk, OnExit, RunAsk, RunError, Stop};
use pinfold_lifecycle::{Cause, Command, ExecutionKind, ExecutionLimits, Policy};

use crate::Place;
use crate::console::ConsoleOptions;
use crate::documents::{self, ExecutionDocument, OutputDocument, ReceiptDocument, Timings};
use crate::exit;
use crate::failure::Failure;
use crate::following::{Interrupt, Story, between, explanation, follow, wall_ms};
use crate::host::begin;
use crate::options::SandboxOptions;
use crate::output::{Follower, Sink};
use crate::progress::Progress;
use crate::stop::told_of;

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

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    options.console.check(place.json)?;
    let (spec, policy) = options.sandbox.ask(place)?;
    let policy = Policy { one_shot: true, ends_with_owner: true, grace_ms: 0, ..policy };
    let host = begin(place).await?;
    let began_ms = wall_ms();
    let command = options.console.furnish(Command { argv: options.command.clone(), ..Command::default() });
    let run = RunAsk { command, kind: ExecutionKind::Run, limits: ExecutionLimits::default() };
    let asked = host.engine.create_and_execute(CreateAsk { spec, policy, key: None }, run).await;
    let (sandbox, execution) = asked.map_err(|error| match error {
        RunError::Create(error) => anyhow::Error::from(error),
        RunError::Execute(error) => error.into(),
    })?;
    let output = host.provider.output_of(sandbox, execution);
    let mut follower = Follower::new(output, Sink::of(place.json));
    let outcome =
        follow(&host, (sandbox, execution), &mut follower, Interrupt::Sandbox, &options.console).await?;
    let waiting = Progress::of("looking for what is left");
    let (cause, receipt) = match host.engine.wait_gone(sandbox, PROOF_MS).await? {
        Stop::Gone { cause, receipt } => (cause, receipt),
        Stop::Pending => return Err(Failure::NotProvenGone { id: sandbox }.into()),
    };
    drop(waiting);
    let story = Story::of(&host, sandbox).await?;
    host.engine.shutdown(OnExit::Keep, 0).await?;
    let first_output_ms = follower.first_at_ms.map(|at| u64::try_from(at - began_ms).unwrap_or(0));
    match follower.into_sink() {
        Sink::Kept { stdout, stderr } => {
            let (created, ended) = (story.created(), story.ended(execution));
            let gone = Some(receipt.verified_at);
            documents::print(&ExecutionDocument {
                sandbox_id: sandbox,
                execution_id: execution,
                exit_code: outcome.exit_code,
                cause,
                detail: outcome.detail.clone().or(story.why_it_did_not_start()),
                output: OutputDocument::of(stdout, stderr),
                usage: receipt.used,
                timings: Timings {
                    ready_ms: between(created, story.ready()),
                    first_output_ms,
                    run_ms: between(story.started(execution), ended),
                    gone_ms: between(ended, gone),
                    total_ms: between(created, gone),
                },
                receipt: Some(ReceiptDocument::of(sandbox, cause, &receipt)),
            })?;
        }
        Sink::Terminal => {
            if let Some(why) = explanation(&outcome, story.why_it_did_not_start()) {
                eprintln!("pinfold: {sandbox} ended: {why}");
            }
            // Whoever has stopped it wants to know that it is gone.
            if cause == Cause::StoppedByUser {
                eprint!("{}", told_of(&ReceiptDocument::of(sandbox, cause, &receipt)));
            }
        }
    }
    Ok(ExitCode::from(exit::code_of(&outcome)))
}
