//! `pinfold create`: a sandbox that lives until it is stopped or its time is up, whatever becomes of this process.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use pinfold_engine::{CreateAsk, OnExit, Waited};
use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_store::Store;

use crate::Place;
use crate::documents::{self, SandboxDocument};
use crate::failure::Failure;
use crate::find::find;
use crate::following::Story;
use crate::host::{Host, begin, data_directory};
use crate::options::SandboxOptions;
use crate::progress::Progress;

/// The hidden command that sees a sandbox through its start when nobody waits for it.
pub(crate) const TEND: &str = "__tend";

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    sandbox: SandboxOptions,
    /// Do not wait until it is ready
    #[arg(long)]
    no_wait: bool,
}

#[derive(clap::Args)]
pub(crate) struct Tended {
    sandbox: SandboxId,
}

/// How long the proof that a failed start left nothing may take.
const PROOF_MS: u64 = 60_000;

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    let (spec, policy) = options.sandbox.ask(place)?;
    let host = begin(place).await?;
    let sandbox = host.engine.create(CreateAsk { spec, policy, key: None }).await?;
    if !options.no_wait {
        wait_until_ready(&host, sandbox).await?;
    }
    let now = pinfold_engine::Clock::now(host.clock.as_ref());
    let document = SandboxDocument::of(&find(&host.store, &sandbox.to_string()).await?, now);
    host.engine.shutdown(OnExit::Keep, 0).await?;
    if options.no_wait {
        leave_to_another(place, sandbox)?;
    }
    if place.json {
        documents::print(&document)?;
    } else {
        println!("{sandbox}");
    }
    Ok(ExitCode::SUCCESS)
}

async fn wait_until_ready(host: &Host, sandbox: SandboxId) -> anyhow::Result<()> {
    let _waiting = Progress::of("waiting until it is ready");
    // The start has a deadline of its own.
    match host.engine.wait_ready(sandbox, Timestamp(i64::MAX)).await? {
        Waited::Met(Ok(())) | Waited::DeadlinePassed => Ok(()),
        Waited::Met(Err(cause)) => {
            host.engine.wait_gone(sandbox, PROOF_MS).await?;
            let why = Story::of(host, sandbox).await?.why_it_did_not_start();
            Err(Failure::NotReady { id: sandbox, cause, why }.into())
        }
    }
}

/// Another process goes on with the launch, out of reach of this one's terminal.
fn leave_to_another(place: &Place, sandbox: SandboxId) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("could not find this program's own file")?;
    let mut command = Command::new(program);
    command.arg(TEND).arg("--data-dir").arg(data_directory(place.data_dir.as_ref())?);
    command.arg(sandbox.to_string()).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("could not start the process that goes on with the launch")?;
    Ok(())
}

/// The engine adopts what the creator left, and goes when the sandbox is ready or gone.
pub(crate) async fn tend(place: &Place, tended: &Tended) -> anyhow::Result<ExitCode> {
    let host = begin(place).await?;
    if host.store.load(tended.sandbox).await?.is_some() {
        wait_until_ready(&host, tended.sandbox).await?;
    }
    host.engine.shutdown(OnExit::Keep, 0).await?;
    Ok(ExitCode::SUCCESS)
}
