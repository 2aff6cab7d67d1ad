//! Pinfold as a server has it: engine, store and sandboxes in this very process, in a directory of their own on a
//! real disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::{StreamExt, stream};
use pinfold_engine::{
    Clock, Config, CreateAsk, Engine, HostCensus, HostClock, OnExit, Parts, PoolPlan, RandomIds, RunAsk,
    Stop, Waited,
};
use pinfold_keeper::log::Entry;
use pinfold_lifecycle::profile::DEFAULT;
use pinfold_lifecycle::{
    Cause, Command, ExecutionId, ExecutionKind, ExecutionLimits, Lease, Limits, Policy, SandboxId, Shape,
    Spec, Timestamp,
};
use pinfold_linux::{LinuxConfig, LinuxProvider, NurseryProgram};
use pinfold_provider::Provider;
use pinfold_store::{Filter, Row, SqliteStore, Store};
use tempfile::TempDir;

use crate::first_byte::{Notes, first_byte};
use crate::timed::{TimedProvider, TimedStore};
use crate::timeline::Timeline;

/// The hidden command under which this program is its own nursery.
pub(crate) const NURSERY: &str = "__nursery";
/// What a sandbox of every benchmark is limited to, unless it says otherwise: what users get who ask for nothing.
pub(crate) const LIMITS: Limits = DEFAULT.limits;
/// Bodies that wait in the pool where there is one.
const POOLED: u64 = 4;
/// How long anything may take before a benchmark gives up on it.
pub(crate) const PATIENCE_MS: u64 = 120_000;

pub(crate) struct Host {
    pub(crate) engine: Engine,
    provider: Arc<LinuxProvider>,
    store: Arc<SqliteStore>,
    clock: Arc<HostClock>,
    /// Goes last, when nothing is left in it that anybody needs.
    data: TempDir,
}

/// A directory that no host keeps in memory, and short enough for the name of a socket.
pub(crate) fn directory_on_disk() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("pinfold-bench-")
        .tempdir_in("/var/tmp")
        .context("could not make a directory in `/var/tmp`")
}

impl Host {
    pub(crate) async fn begin() -> Result<Self> {
        Self::begin_with(None, Vec::new()).await
    }

    /// With every call to the provider and every commit noted.
    pub(crate) async fn begin_timed(timeline: Arc<Timeline>) -> Result<Self> {
        Self::begin_with(Some(timeline), Vec::new()).await
    }

    /// With bodies made ahead of need.
    pub(crate) async fn begin_pooled(timeline: Option<Arc<Timeline>>) -> Result<Self> {
        let plan = PoolPlan { shape: shape(), policy: pooled_policy(), size: POOLED };
        Self::begin_with(timeline, vec![plan]).await
    }

    /// Waits until all of those bodies can be given out, so that none is made while one is used.
    pub(crate) async fn wait_pooled(&self) -> Result<()> {
        let end = self.deadline();
        let is_ready = |row: &Row| match row {
            Row::Readable(stored) => {
                matches!(&stored.sandbox.lease, Lease::Live(live) if live.check.is_none())
            }
            Row::Unreadable(_) => false,
        };
        let all = usize::try_from(POOLED)?;
        loop {
            let waiting = self.store.waiting(&shape(), None, 2 * all).await?;
            if waiting.iter().filter(|row| is_ready(row)).count() >= all {
                return Ok(());
            }
            if self.clock.now() > end {
                bail!("the pool is not filled");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn begin_with(timeline: Option<Arc<Timeline>>, pool: Vec<PoolPlan>) -> Result<Self> {
        let data = directory_on_disk()?;
        let census = HostCensus::take()?;
        let clock = Arc::new(HostClock::anchored(data.path(), census.boot_id())?);
        let store = Arc::new(SqliteStore::open(&data.path().join("store"))?);
        let provider = Arc::new(provider(data.path(), store.instance(), clock.clone())?);
        let (seen_store, seen_provider): (Arc<dyn Store>, Arc<dyn Provider>) = match timeline {
            None => (store.clone(), provider.clone()),
            Some(timeline) => (
                Arc::new(TimedStore::new(store.clone(), timeline.clone())),
                Arc::new(TimedProvider::new(provider.clone(), timeline)),
            ),
        };
        let parts = Parts {
            store: seen_store,
            provider: seen_provider,
            clock: clock.clone(),
            ids: Arc::new(RandomIds),
            census: Arc::new(census),
        };
        let engine = Engine::begin(parts, Config { pool, ..Config::default() }).await?;
        Ok(Self { engine, provider, store, clock, data })
    }

    /// A sandbox that passed its probes.
    pub(crate) async fn ready(&self, limits: Limits) -> Result<SandboxId> {
        let sandbox = self.engine.create(ask(limits, false)).await?;
        self.wait_ready(sandbox).await?;
        Ok(sandbox)
    }

    pub(crate) async fn wait_ready(&self, sandbox: SandboxId) -> Result<()> {
        match self.engine.wait_ready(sandbox, self.deadline()).await? {
            Waited::Met(Ok(())) => Ok(()),
            Waited::Met(Err(cause)) => bail!("{sandbox} ended before it was ready: {cause:?}"),
            Waited::DeadlinePassed => bail!("{sandbox} is not ready in time"),
        }
    }

    /// A sandbox and its first command, asked for in one breath.
    pub(crate) async fn run(&self, ask: CreateAsk, argv: &[&str]) -> Result<(SandboxId, ExecutionId)> {
        let limits = ExecutionLimits::default();
        let run = RunAsk { command: command(argv), kind: ExecutionKind::Run, limits };
        Ok(self.engine.create_and_execute(ask, run).await?)
    }

    pub(crate) async fn execute(&self, sandbox: SandboxId, argv: &[&str]) -> Result<ExecutionId> {
        let (run, limits) = (ExecutionKind::Run, ExecutionLimits::default());
        Ok(self.engine.execute(sandbox, command(argv), run, limits, true).await?)
    }

    /// Waits until the caller can read something that the command wrote.
    pub(crate) async fn first_byte(&self, sandbox: SandboxId, execution: ExecutionId) -> Result<Notes> {
        let directory = self.data.path().join("linux/logs").join(sandbox.to_string());
        first_byte(self.provider.output_of(sandbox, execution), &directory).await
    }

    pub(crate) async fn wait_execution(&self, sandbox: SandboxId, execution: ExecutionId) -> Result<Cause> {
        match self.engine.wait_execution(sandbox, execution, self.deadline()).await? {
            Waited::Met(outcome) => Ok(outcome.cause),
            Waited::DeadlinePassed => bail!("{execution} did not end in time"),
        }
    }

    /// All that it wrote so far.
    pub(crate) fn output(&self, sandbox: SandboxId, execution: ExecutionId) -> Result<Vec<u8>> {
        let (mut log, mut written) = (self.provider.output_of(sandbox, execution), Vec::new());
        while let Some(entry) = log.next()? {
            if let Entry::Piece(piece) = entry {
                written.extend(piece.bytes);
            }
        }
        Ok(written)
    }

    /// Waits for the durable receipt.
    pub(crate) async fn wait_gone(&self, sandbox: SandboxId) -> Result<()> {
        proven(sandbox, &self.engine.wait_gone(sandbox, PATIENCE_MS).await?)
    }

    /// Decides that it ends, and waits for the durable receipt.
    pub(crate) async fn stop(&self, sandbox: SandboxId, cause: Cause) -> Result<()> {
        proven(sandbox, &self.engine.stop(sandbox, cause, true, PATIENCE_MS).await?)
    }

    /// All sandboxes that are not yet proven gone, read as a list would show them.
    pub(crate) async fn present(&self) -> Result<Vec<SandboxId>> {
        let mut present = Vec::new();
        loop {
            let page = self.store.list(Filter::Present, present.last().copied(), 500).await?;
            if page.is_empty() {
                return Ok(present);
            }
            present.extend(page.iter().map(pinfold_store::Row::id));
        }
    }

    /// Ends all sandboxes that are left, however the benchmark went.
    pub(crate) async fn end(&self) -> Result<()> {
        let left = self.present().await?;
        let stops = stream::iter(left).map(|id| self.stop(id, Cause::Shutdown)).buffer_unordered(64);
        let failed: Vec<_> = stops.filter_map(|stopped| async { stopped.err() }).collect().await;
        failed.into_iter().next().map_or(Ok(()), Err)
    }

    /// Ends all that is left, what nobody was given too.
    pub(crate) async fn close(&self) -> Result<()> {
        Ok(self.engine.shutdown(OnExit::Stop, PATIENCE_MS).await.map(drop)?)
    }

    fn deadline(&self) -> Timestamp {
        self.clock.now().after_ms(PATIENCE_MS)
    }
}

fn provider(data: &Path, instance: u128, clock: Arc<HostClock>) -> Result<LinuxProvider> {
    let program = std::env::current_exe().context("could not find this program's own file")?;
    Ok(LinuxProvider::open(LinuxConfig {
        data: data.join("linux"),
        instance,
        nursery: NurseryProgram { program, arguments: vec![NURSERY.into()] },
        clock: Arc::new(move || clock.now()),
    })?)
}

pub(crate) fn ask(limits: Limits, one_shot: bool) -> CreateAsk {
    let policy = Policy { one_shot, ends_with_owner: true, grace_ms: 0, ..Policy::default() };
    CreateAsk { spec: Spec { limits, ..Spec::default() }, policy, key: None, queue: None }
}

/// One that a body from the pool can meet.
pub(crate) fn ask_of_pool() -> CreateAsk {
    CreateAsk {
        spec: Spec { limits: LIMITS, ..Spec::default() },
        policy: pooled_policy(),
        key: None,
        queue: None,
    }
}

fn shape() -> Shape {
    Spec { limits: LIMITS, ..Spec::default() }.shape()
}

fn pooled_policy() -> Policy {
    Policy { one_shot: true, grace_ms: 0, ..Policy::default() }
}

fn command(argv: &[&str]) -> Command {
    Command { argv: argv.iter().map(|word| (*word).to_owned()).collect(), ..Command::default() }
}

fn proven(sandbox: SandboxId, stop: &Stop) -> Result<()> {
    match stop {
        Stop::Gone { .. } => Ok(()),
        Stop::Pending => bail!("{sandbox} could not be proven gone in time"),
    }
}
