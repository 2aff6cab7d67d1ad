//! `pinfold demo`: a server of its own, five agents in it, and what became of each. Nothing is left behind.

mod agents;
mod board;
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use pinfold_engine::{Config, CreateAsk, OnExit, RunAsk, RunError, Stop, Waited};
use pinfold_lifecycle::{
    Cause, Command, ExecutionId, ExecutionKind, ExecutionLimits, Policy, SandboxId, Spec, Timestamp,
};
use pinfold_linux::doctor::{Standing, diagnose};
use pinfold_server::http::{Door, ServerConfig, serve};
use pinfold_server::service::moment;
use pinfold_server::{Host, ObjectsPlace, Service};
use pinfold_store::{Filter, Store};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use self::agents::{Agent, five};
use self::board::Board;
use self::verdict::{DemoDocument, Ended};
use crate::Place;
use crate::documents;
use crate::exit;
use crate::failure::{Failure, say};
use crate::following::asked_to_end;
use crate::host::{config, data_directory};
use crate::serve::Announced;

#[derive(clap::Args)]
pub(crate) struct Options {}

/// How often the board is drawn.
const GLANCE: Duration = Duration::from_millis(250);
/// How long the proof that a sandbox is gone may take.
const PROOF_MS: u64 = 30_000;
/// How long tasks that were given up may take to let go, and how often that is looked at.
const LET_GO_LOOKS: u32 = 200;
const LET_GO_EVERY: Duration = Duration::from_millis(5);

pub(crate) async fn run(place: &Place, _options: &Options) -> anyhow::Result<ExitCode> {
    let interrupted = asked_to_end(true)?;
    let directory = Directory::of(place)?;
    let shop = Shop::open(&directory.path).await?;
    let memory = memory_limit(&directory.path);
    let mut board = Board::of(place.json, &directory.path, memory.as_ref());
    let began = shop.service.now();
    let watched = tokio::select! {
        watched = watch(&shop.service, five(memory.is_none()), &mut board) => watched.map(Some),
        () = interrupted => Ok(None),
    };
    let took_ms = shop.service.now().ms_since(began);
    board.close(if matches!(watched, Ok(Some(_))) { "" } else { "stopping all of them …" });
    // Also after an error: what still runs ends here, and is proven gone.
    let closed = shop.close().await;
    match &closed {
        Ok(()) => directory.remove()?,
        // Without it nobody could find what is left.
        Err(_) => directory.keep(),
    }
    let Some(ended) = watched? else {
        closed?;
        board.say("stopped; nothing is left");
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    closed?;
    let document = DemoDocument::of(&ended, took_ms, memory);
    if place.json {
        documents::print(&document)?;
    } else {
        board.say(&document.to_string());
    }
    Ok(if document.is_as_it_should_be() { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

/// Where the demo keeps everything. One of its own goes with it, also by a panic.
struct Directory {
    path: PathBuf,
    own: Option<TempDir>,
}

impl Directory {
    fn of(place: &Place) -> anyhow::Result<Self> {
        match &place.data_dir {
            Some(asked) => Ok(Self { path: data_directory(Some(asked))?, own: None }),
            None => {
                let own = tempfile::Builder::new().prefix("pinfold-demo.").tempdir();
                let own = own.context("could not make a directory for the demo; use --data-dir")?;
                Ok(Self { path: own.path().to_owned(), own: Some(own) })
            }
        }
    }

    fn keep(self) {
        if let Some(own) = self.own {
            say(&format!("`{}` stays, with what is known of what is left", own.keep().display()));
        }
    }

    fn remove(self) -> anyhow::Result<()> {
        let Some(own) = self.own else { return Ok(()) };
        own.close().with_context(|| format!("could not remove `{}`", self.path.display()))
    }
}

/// Why memory cannot be limited here. None: it can.
fn memory_limit(data: &std::path::Path) -> Option<String> {
    let found = diagnose(data).into_iter().find(|it| it.ability == "memory limit")?;
    (found.standing != Standing::Enforced).then_some(found.means)
}

/// A server on any free port, for whoever wants to look in meanwhile.
struct Shop {
    service: Arc<Service>,
    announced: Announced,
    closing: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

impl Shop {
    async fn open(data: &std::path::Path) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("could not listen on 127.0.0.1")?;
        let address = listener.local_addr().context("could not see the address that is listened on")?;
        let host = config(data, Config::default(), ObjectsPlace::default())?;
        let service = Arc::new(Service::new(Host::begin(host).await?));
        service.ensure_first_token().await?;
        let announced = Announced::write(data, address, moment(service.now()))?;
        let (closing, closed) = oneshot::channel();
        let serving = service.clone();
        let served = tokio::spawn(async move {
            let closed = async { drop(closed.await) };
            serve(serving, vec![Door::plain(listener)], &ServerConfig::default(), closed).await
        });
        Ok(Self { service, announced, closing, served })
    }

    async fn close(self) -> anyhow::Result<()> {
        let Self { service, announced, closing, served } = self;
        // Nobody announces what is about to end; a server that has failed needs no word.
        drop(announced);
        let _ = closing.send(());
        let stopped = service.shutdown(OnExit::Stop, PROOF_MS).await;
        served.await?.context("could not go on serving")?;
        // The last one who has it takes away what is on the host for all sandboxes.
        for _ in 0..LET_GO_LOOKS {
            if Arc::strong_count(&service) == 1 {
                break;
            }
            tokio::time::sleep(LET_GO_EVERY).await;
        }
        stopped?;
        match service.host().store.list(Filter::Leased, None, 1).await?.first() {
            None => Ok(()),
            Some(left) => Err(Failure::NotProvenGone { id: left.id().to_string() }.into()),
        }
    }
}

/// Until each of them has ended and is proven gone.
async fn watch(service: &Arc<Service>, agents: Vec<Agent>, board: &mut Board) -> anyhow::Result<Vec<Ended>> {
    let mut under_way = JoinSet::new();
    for (place, agent) in agents.into_iter().enumerate() {
        let (sandbox, execution) = start(service.host(), &agent).await?;
        board.add(&agent, sandbox);
        let service = service.clone();
        under_way.spawn(async move { (place, see_through(service.host(), agent, sandbox, execution).await) });
    }
    let mut glance = tokio::time::interval(GLANCE);
    let mut ended = Vec::new();
    while !under_way.is_empty() {
        tokio::select! {
            Some(one) = under_way.join_next() => {
                let (place, one) = one?;
                let one = one?;
                board.end(place, &one, service.now());
                ended.push((place, one));
            }
            _ = glance.tick() => board.draw(service.host()).await?,
        }
    }
    board.draw(service.host()).await?;
    ended.sort_by_key(|(place, _)| *place);
    Ok(ended.into_iter().map(|(_, ended)| ended).collect())
}

async fn start(host: &Host, agent: &Agent) -> anyhow::Result<(SandboxId, ExecutionId)> {
    let given = agent.given()?;
    let spec = Spec {
        name: Some(agent.name.into()),
        limits: given.limits,
        execution: given.execution,
        ..Spec::default()
    };
    // Whatever becomes of this process, its sandboxes end with it.
    let policy = Policy {
        one_shot: true,
        ends_with_owner: true,
        grace_ms: 0,
        max_life_ms: given.max_life_ms,
        ..Policy::default()
    };
    let argv = ["sh", "-c", agent.script].map(str::to_owned).to_vec();
    let command = Command { argv, ..Command::default() };
    let run = RunAsk { command, kind: ExecutionKind::Run, limits: ExecutionLimits::default() };
    let asked = host.engine.create_and_execute(CreateAsk { spec, policy, key: None, queue: None }, run).await;
    asked.map_err(|error| match error {
        RunError::Create(error) => error.into(),
        RunError::Execute(error) => error.into(),
    })
}

async fn see_through(
    host: &Host,
    agent: Agent,
    sandbox: SandboxId,
    execution: ExecutionId,
) -> anyhow::Result<Ended> {
    let began = host.clock.now();
    let mut ended = std::pin::pin!(host.engine.wait_execution(sandbox, execution, Timestamp(i64::MAX)));
    let somebody = async {
        match agent.stop_after_ms {
            Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            None => std::future::pending().await,
        }
    };
    let outcome = tokio::select! {
        outcome = &mut ended => outcome,
        () = somebody => {
            host.engine.stop(sandbox, Cause::StoppedByUser, true, 0).await?;
            ended.await
        }
    };
    let Waited::Met(outcome) = outcome? else { bail!("the end of time has come") };
    let duration_ms = host.clock.now().ms_since(began);
    match host.engine.wait_gone(sandbox, PROOF_MS).await? {
        Stop::Gone { cause, receipt } => {
            Ok(Ended { agent, sandbox, exit_code: outcome.exit_code, cause, duration_ms, receipt: *receipt })
        }
        Stop::Pending => Err(Failure::NotProvenGone { id: sandbox.to_string() }.into()),
    }
}
