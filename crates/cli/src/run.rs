//! `pinfold run`: provision, execute, track, clean up, and exit as the command did.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use pinfold_engine::{CreateAsk, OnExit, Stop, Waited};
use pinfold_lifecycle::{
    Cause, Command, ExecutionId, ExecutionKind, ExecutionLimits, Fact, Limits, Outcome, OutcomeKind, Policy,
    Receipt, SandboxId, Spec,
};
use pinfold_store::{Seq, Store};
use serde::Serialize;

use crate::host::{Host, data_directory};
use crate::output::{Follower, Sink};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where sandboxes and their records are kept
    #[arg(long, env = "PINFOLD_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Print one JSON document at the end instead of the output
    #[arg(long)]
    json: bool,
    /// End the command after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
    /// End the command when it wrote nothing for so many seconds
    #[arg(long, value_name = "SECONDS")]
    inactivity_timeout: Option<u64>,
    /// Memory for everything inside, in MiB
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,
    /// Processes and threads inside
    #[arg(long, value_name = "COUNT")]
    pids: Option<u64>,
    /// A variable of the command's environment
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Where the command starts
    #[arg(long, value_name = "PATH")]
    workdir: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

fn variable(given: &str) -> Result<(String, String), String> {
    match given.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{given}` is not NAME=VALUE")),
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    sandbox_id: SandboxId,
    execution_id: ExecutionId,
    exit_code: Option<i32>,
    cause: Cause,
    stdout: String,
    stderr: String,
    receipt: &'a Receipt,
}

/// How often output is looked for.
const LOOK_EVERY_MS: u64 = 10;
/// How long the proof that the sandbox is gone may take.
const PROOF_MS: u64 = 60_000;

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run_one(options))
}

async fn run_one(options: &Options) -> anyhow::Result<ExitCode> {
    let host = Host::begin(&data_directory(options.data_dir.as_ref())?).await?;
    let ask = CreateAsk { spec: spec(options), policy: policy(), key: None };
    let sandbox = host.engine.create(ask).await?;
    let limits = ExecutionLimits {
        timeout_ms: Some(options.timeout.saturating_mul(1_000)),
        inactivity_ms: options.inactivity_timeout.map(|seconds| seconds.saturating_mul(1_000)),
    };
    let run = ExecutionKind::Run;
    let execution = host.engine.execute(sandbox, command(options), run, limits, true).await?;
    let output = host.provider.output_of(sandbox, execution);
    let kept = Sink::Kept { stdout: Vec::new(), stderr: Vec::new() };
    let mut follower = Follower::new(output, if options.json { kept } else { Sink::Terminal });
    let outcome = follow(&host, sandbox, execution, &mut follower).await?;
    let (cause, receipt) = match host.engine.wait_gone(sandbox, PROOF_MS).await? {
        Stop::Gone { cause, receipt } => (cause, receipt),
        Stop::Pending => bail!("{sandbox} could not be proven gone yet; it is looked at again and again"),
    };
    let why = why_it_did_not_start(&host, sandbox).await?;
    host.engine.shutdown(OnExit::Keep, 0).await?;
    if let Sink::Kept { stdout, stderr } = follower.into_sink() {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let document = Document {
            sandbox_id: sandbox,
            execution_id: execution,
            exit_code: outcome.exit_code,
            cause,
            stdout: text(stdout),
            stderr: text(stderr),
            receipt: &receipt,
        };
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else if outcome.kind != OutcomeKind::Exited {
        eprintln!("pinfold: {sandbox} ended: {}", explain(&outcome, why));
    }
    Ok(ExitCode::from(exit_code(&outcome)))
}

/// Passes the output on until the command has its outcome. The first Ctrl-C ends the sandbox.
async fn follow(
    host: &Host,
    sandbox: SandboxId,
    execution: ExecutionId,
    follower: &mut Follower,
) -> anyhow::Result<Outcome> {
    let far = pinfold_lifecycle::Timestamp(i64::MAX);
    let mut ended = std::pin::pin!(host.engine.wait_execution(sandbox, execution, far));
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let mut stopping = false;
    loop {
        tokio::select! {
            biased;
            outcome = &mut ended => {
                follower.catch_up().context("could not read the command's output")?;
                match outcome? {
                    Waited::Met(outcome) => return Ok(outcome),
                    Waited::DeadlinePassed => bail!("the end of time has come"),
                }
            }
            _ = &mut interrupted, if !stopping => {
                stopping = true;
                host.engine.stop(sandbox, Cause::StoppedByUser, true, 0).await?;
            }
            () = tokio::time::sleep(Duration::from_millis(LOOK_EVERY_MS)) => {
                follower.catch_up().context("could not read the command's output")?;
            }
        }
    }
}

fn spec(options: &Options) -> Spec {
    let limits = Limits { memory_mb: options.memory, processes: options.pids, ..Limits::default() };
    Spec { limits, ..Spec::default() }
}

fn policy() -> Policy {
    Policy { one_shot: true, ends_with_owner: true, grace_ms: 0, ..Policy::default() }
}

fn command(options: &Options) -> Command {
    Command {
        argv: options.command.clone(),
        env: options.env.iter().cloned().collect::<BTreeMap<_, _>>(),
        workdir: options.workdir.clone(),
        tty: false,
        stdin: false,
    }
}

/// What the history says of the last launch that failed.
async fn why_it_did_not_start(host: &Host, sandbox: SandboxId) -> anyhow::Result<Option<String>> {
    let history = host.store.history(Some(sandbox), Seq::default(), 1_000).await?;
    Ok(history.into_iter().rev().find_map(|row| match row.record.fact {
        Fact::StartFailed { why, .. } => Some(why),
        _ => None,
    }))
}

fn explain(outcome: &Outcome, why: Option<String>) -> String {
    let detail = outcome.detail.clone().or(why).map(|detail| format!(" ({detail})")).unwrap_or_default();
    format!("{:?}{detail}", outcome.cause)
}

/// The command's own code, or one that says who ended it.
fn exit_code(outcome: &Outcome) -> u8 {
    let own = outcome.exit_code.and_then(|code| u8::try_from(code).ok());
    match outcome.cause {
        Cause::Completed | Cause::ExitNonzero => own.unwrap_or(1),
        Cause::TimeLimit | Cause::Inactivity | Cause::Idle | Cause::MaxLife => 124,
        Cause::MemoryLimit
        | Cause::CpuLimit
        | Cause::NetworkLimit
        | Cause::DiskLimit
        | Cause::ProcessLimit
        | Cause::OutputLimit => 137,
        Cause::StoppedByUser | Cause::Cancelled | Cause::EvictedEmergency => 130,
        Cause::StartDeadline
        | Cause::StartFailed
        | Cause::ProbeFailed
        | Cause::CallerGone
        | Cause::Shutdown
        | Cause::Orphan
        | Cause::Lost
        | Cause::HostRestarted
        | Cause::ProviderError => 125,
    }
}
