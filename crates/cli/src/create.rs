//! `pinfold create`: creates a sandbox that outlives this process.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use pinfold_engine::{OnExit, WaitOutcome};
use pinfold_lifecycle::{SandboxId, Timestamp};

use crate::GlobalOptions;
use crate::backend::Backend;
use crate::data_directory::data_directory;
use crate::host::start_host;
use crate::json_output;
use crate::options::SandboxOptions;
use crate::progress::Progress;

/// The hidden command that completes the start of a sandbox after `create --no-wait`.
pub(crate) const FINISH_CREATE: &str = "__finish-create";

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    sandbox: SandboxOptions,
    /// Do not wait until the sandbox is ready
    #[arg(long)]
    no_wait: bool,
}

#[derive(clap::Args)]
pub(crate) struct FinishCreate {
    sandbox: SandboxId,
}

/// Timeout for the proof that a failed start left nothing behind.
const PROOF_MS: u64 = 60_000;

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let (backend, request) = options.sandbox.backend_and_request(global).await?;
    let sandbox = match options.sandbox.queue_request() {
        Some(queue) => {
            let created = backend.create_queued(&request, !options.no_wait, queue);
            queue.show_progress(&backend, created).await?
        }
        None => {
            let _waiting = Progress::of("waiting until the sandbox is ready");
            backend.create(&request, !options.no_wait).await?
        }
    };
    backend.close().await?;
    if let (true, Backend::Local(_)) = (options.no_wait, &backend) {
        spawn_finish_create(global, &sandbox.id)?;
    }
    if global.json {
        json_output::print(&sandbox)?;
    } else {
        anstream::println!("{}", sandbox.id);
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts a background process, detached from this terminal, that completes the launch.
fn spawn_finish_create(global: &GlobalOptions, sandbox: &str) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("could not find the path of this program")?;
    let mut command = Command::new(program);
    command.arg(FINISH_CREATE).arg("--data-dir").arg(data_directory(global.data_dir.as_ref())?);
    command.arg(sandbox).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("could not start the background process that completes the launch")?;
    Ok(())
}

/// Adopts the sandbox from the process that created it, and exits when it is ready or gone.
pub(crate) async fn finish_create(
    global: &GlobalOptions,
    options: &FinishCreate,
) -> anyhow::Result<ExitCode> {
    let host = start_host(global).await?;
    if host.store.load(options.sandbox).await?.is_some() {
        // No timeout here: the start has its own deadline.
        let waited = host.engine.wait_ready(options.sandbox, Timestamp(i64::MAX)).await?;
        if let WaitOutcome::Met(Err(_)) = waited {
            host.engine.wait_gone(options.sandbox, PROOF_MS).await?;
        }
    }
    host.engine.shutdown(OnExit::Keep, 0).await?;
    Ok(ExitCode::SUCCESS)
}
