//! `pinfold demo`: starts a temporary server, runs five agents in it, and reports how each ended. It removes everything
//! afterwards.

mod agents;
mod board;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use pinfold_engine::{Config, CreateRequest, OnExit, RunError, RunRequest, StopProgress, WaitOutcome};
use pinfold_host::start_host;
use pinfold_http::{Endpoint, ServerConfig, serve};
use pinfold_lifecycle::{
    Cause, Command, ExecutionId, ExecutionKind, ExecutionLimits, Policy, SandboxId, Spec, Timestamp,
};
use pinfold_linux::doctor::{Enforcement, diagnose};
use pinfold_service::rfc3339;
use pinfold_service::{Host, ObjectStoreConfig, Service};
use pinfold_store::SandboxFilter;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use self::agents::{Agent, all_agents};
use self::board::Board;
use self::report::{DemoReport, EndedAgent};
use crate::GlobalOptions;
use crate::announcement::ServerAnnouncement;
use crate::data_directory::data_directory;
use crate::exit;
use crate::failure::{Failure, say};
use crate::follow::termination_signal;
use crate::host::{config, programs};
use crate::json_output;

#[derive(clap::Args)]
pub(crate) struct Options {}

/// Interval between redraws of the status table.
const REDRAW_INTERVAL: Duration = Duration::from_millis(250);
/// Timeout for the proof that a sandbox is gone.
const PROOF_MS: u64 = 30_000;
/// How often, and at what interval, to check that cancelled tasks have released the service.
const RELEASE_POLLS: u32 = 200;
const RELEASE_POLL_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) async fn run(global: &GlobalOptions, _options: &Options) -> anyhow::Result<ExitCode> {
    let interrupted = termination_signal(true)?;
    let directory = Directory::of(global)?;
    let server = DemoServer::open(&directory.path).await?;
    let memory = memory_limit(&directory.path);
    let mut board = Board::of(global.json, &directory.path, memory.as_ref());
    let began = server.service.now();
    let watched = tokio::select! {
        watched = watch(&server.service, all_agents(memory.is_none()), &mut board) => watched.map(Some),
        () = interrupted => Ok(None),
    };
    let took_ms = server.service.now().ms_since(began);
    board.close(if matches!(watched, Ok(Some(_))) { "" } else { "stopping all sandboxes …" });
    // Also after an error: this stops what still runs and proves it gone.
    let closed = server.close().await;
    match &closed {
        Ok(()) => directory.remove()?,
        // The directory is needed to find what is left.
        Err(_) => directory.keep(),
    }
    let Some(ended) = watched? else {
        closed?;
        board.say("stopped; nothing is left behind");
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    closed?;
    let document = DemoReport::of(&ended, took_ms, memory);
    if global.json {
        json_output::print(&document)?;
    } else {
        board.say(&document.to_string());
    }
    Ok(if document.succeeded() { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

/// The demo's data directory. A temporary one is removed on drop, also in a panic.
struct Directory {
    path: PathBuf,
    temporary: Option<TempDir>,
}

impl Directory {
    fn of(global: &GlobalOptions) -> anyhow::Result<Self> {
        match &global.data_dir {
            Some(command) => Ok(Self { path: data_directory(Some(command))?, temporary: None }),
            None => {
                let own = tempfile::Builder::new().prefix("pinfold-demo.").tempdir();
                let own =
                    own.context("could not create a temporary directory for the demo; use --data-dir")?;
                Ok(Self { path: own.path().to_owned(), temporary: Some(own) })
            }
        }
    }

    fn keep(self) {
        if let Some(own) = self.temporary {
            say(&format!(
                "not everything could be removed; its records are kept in `{}`",
                own.keep().display()
            ));
        }
    }

    fn remove(self) -> anyhow::Result<()> {
        let Some(own) = self.temporary else { return Ok(()) };
        own.close().with_context(|| format!("could not remove `{}`", self.path.display()))
    }
}

/// Why memory cannot be limited on this machine. None: it can.
fn memory_limit(data: &std::path::Path) -> Option<String> {
    let found = diagnose(data).into_iter().find(|it| it.ability == "memory limit")?;
    (found.enforcement != Enforcement::Enforced).then_some(found.means)
}

/// The demo's server, on any free port, so that other commands can watch.
struct DemoServer {
    service: Arc<Service>,
    announcement: ServerAnnouncement,
    closing: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

impl DemoServer {
    async fn open(data: &std::path::Path) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("could not listen on 127.0.0.1")?;
        let address = listener.local_addr().context("could not read the listening address")?;
        let host = config(data, Config::default(), ObjectStoreConfig::default());
        let service = Arc::new(Service::new(start_host(host, programs()?).await?));
        service.ensure_first_token().await?;
        let announcement = ServerAnnouncement::write(data, address, rfc3339(service.now()))?;
        let (closing, closed) = oneshot::channel();
        let serving = service.clone();
        let served = tokio::spawn(async move {
            let closed = async { drop(closed.await) };
            serve(serving, vec![Endpoint::plain(listener)], &ServerConfig::default(), closed).await
        });
        Ok(Self { service, announcement, closing, served })
    }

    async fn close(self) -> anyhow::Result<()> {
        let Self { service, announcement, closing, served } = self;
        // Commands must not find a server that is about to end. A failed server has dropped its receiver.
        drop(announcement);
        let _ = closing.send(());
        let stopped = service.shutdown(OnExit::Stop, PROOF_MS).await;
        served.await?.context("the demo server failed")?;
        // Dropping the last reference removes the host-wide resources.
        for _ in 0..RELEASE_POLLS {
            if Arc::strong_count(&service) == 1 {
                break;
            }
            tokio::time::sleep(RELEASE_POLL_INTERVAL).await;
        }
        stopped?;
        match service.host().store.list(SandboxFilter::Leased, None, 1).await?.first() {
            None => Ok(()),
            Some(left) => Err(Failure::NotProvenGone { id: left.id().to_string() }.into()),
        }
    }
}

/// Runs all agents until each has ended and is proven gone.
async fn watch(
    service: &Arc<Service>,
    agents: Vec<Agent>,
    board: &mut Board,
) -> anyhow::Result<Vec<EndedAgent>> {
    let mut running = JoinSet::new();
    for (index, agent) in agents.into_iter().enumerate() {
        let (sandbox, execution) = start(service.host(), &agent).await?;
        board.add(&agent, sandbox);
        let service = service.clone();
        running.spawn(async move { (index, run_to_end(service.host(), agent, sandbox, execution).await) });
    }
    let mut redraw = tokio::time::interval(REDRAW_INTERVAL);
    let mut ended = Vec::new();
    while !running.is_empty() {
        tokio::select! {
            Some(one) = running.join_next() => {
                let (index, one) = one?;
                let one = one?;
                board.end(index, &one, service.now());
                ended.push((index, one));
            }
            _ = redraw.tick() => board.draw(service.host()).await?,
        }
    }
    board.draw(service.host()).await?;
    ended.sort_by_key(|(index, _)| *index);
    Ok(ended.into_iter().map(|(_, ended)| ended).collect())
}

async fn start(host: &Host, agent: &Agent) -> anyhow::Result<(SandboxId, ExecutionId)> {
    let resolved = agent.resolved_limits()?;
    let spec = Spec {
        name: Some(agent.name.into()),
        limits: resolved.limits,
        execution: resolved.execution,
        ..Spec::default()
    };
    // The sandboxes end with this process, however it ends.
    let policy = Policy {
        one_shot: true,
        ends_with_owner: true,
        grace_ms: 0,
        max_life_ms: resolved.max_life_ms,
        ..Policy::default()
    };
    let argv = ["sh", "-c", agent.script].map(str::to_owned).to_vec();
    let command = Command { argv, ..Command::default() };
    let run = RunRequest { command, kind: ExecutionKind::Run, limits: ExecutionLimits::default() };
    let command = host
        .engine
        .create_and_execute(
            CreateRequest { spec: spec.into(), policy: policy.into(), ..CreateRequest::default() },
            run,
        )
        .await;
    command.map_err(|error| match error {
        RunError::Create(error) => error.into(),
        RunError::Execute(error) => error.into(),
    })
}

async fn run_to_end(
    host: &Host,
    agent: Agent,
    sandbox: SandboxId,
    execution: ExecutionId,
) -> anyhow::Result<EndedAgent> {
    let began = host.clock.now();
    let mut ended = std::pin::pin!(host.engine.wait_execution(sandbox, execution, Timestamp(i64::MAX)));
    let stop_timer = async {
        match agent.stop_after_ms {
            Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            None => std::future::pending().await,
        }
    };
    let outcome = tokio::select! {
        outcome = &mut ended => outcome,
        () = stop_timer => {
            host.engine.stop(sandbox, Cause::StoppedByUser, Some(0), 0).await?;
            ended.await
        }
    };
    let WaitOutcome::Met(outcome) = outcome? else {
        bail!("the wait for an execution without a deadline timed out")
    };
    let duration_ms = host.clock.now().ms_since(began);
    match host.engine.wait_gone(sandbox, PROOF_MS).await? {
        StopProgress::Gone { cause, receipt } => Ok(EndedAgent {
            agent,
            sandbox,
            exit_code: outcome.exit_code,
            cause,
            duration_ms,
            receipt: *receipt,
        }),
        StopProgress::Pending => Err(Failure::NotProvenGone { id: sandbox.to_string() }.into()),
    }
}
