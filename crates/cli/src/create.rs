//! `pinfold create`: a sandbox that lives until it is stopped or its time is up, whatever becomes of this process.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use pinfold_engine::{OnExit, Waited};
use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_store::Store;

use crate::Place;
use crate::documents;
use crate::host::{begin, data_directory};
use crate::options::SandboxOptions;
use crate::plane::Plane;
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
    let (plane, wish) = options.sandbox.ask(place).await?;
    let sandbox = match options.sandbox.queueing() {
        Some(ticket) => {
            let created = plane.create_in_turn(&wish, !options.no_wait, ticket);
            ticket.shown(&plane, created).await?
        }
        None => {
            let _waiting = Progress::of("waiting until it is ready");
            plane.create(&wish, !options.no_wait).await?
        }
    };
    plane.close().await?;
    if let (true, Plane::Here(_)) = (options.no_wait, &plane) {
        leave_to_another(place, &sandbox.id)?;
    }
    if place.json {
        documents::print(&sandbox)?;
    } else {
        anstream::println!("{}", sandbox.id);
    }
    Ok(ExitCode::SUCCESS)
}

/// Another process goes on with the launch, out of reach of this one's terminal.
fn leave_to_another(place: &Place, sandbox: &str) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("could not find this program's own file")?;
    let mut command = Command::new(program);
    command.arg(TEND).arg("--data-dir").arg(data_directory(place.data_dir.as_ref())?);
    command.arg(sandbox).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("could not start the process that goes on with the launch")?;
    Ok(())
}

/// The engine adopts what the creator left, and goes when the sandbox is ready or gone.
pub(crate) async fn tend(place: &Place, tended: &Tended) -> anyhow::Result<ExitCode> {
    let host = begin(place).await?;
    if host.store.load(tended.sandbox).await?.is_some() {
        // The start has a deadline of its own.
        let waited = host.engine.wait_ready(tended.sandbox, Timestamp(i64::MAX)).await?;
        if let Waited::Met(Err(_)) = waited {
            host.engine.wait_gone(tended.sandbox, PROOF_MS).await?;
        }
    }
    host.engine.shutdown(OnExit::Keep, 0).await?;
    Ok(ExitCode::SUCCESS)
}
