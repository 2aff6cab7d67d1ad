//! Engine, store and provider in this process, as in a server, in a directory on a real disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::{StreamExt, stream};
use pinfold_engine::{
    Clock, Config, CreateRequest, DiscardArtifacts, Engine, HostClock, HostLiveness, OnExit, Parts, PoolPlan,
    RandomIds, RunRequest, StopProgress, WaitOutcome,
};
use pinfold_lifecycle::profile::DEFAULT;
use pinfold_lifecycle::{
    Cause, Command, ExecutionId, ExecutionKind, ExecutionLimits, Lease, Limits, Policy, SandboxId, Shape,
    Spec, Timestamp,
};
use pinfold_linux::{LinuxConfig, LinuxProvider, SpawnerProgram};
use pinfold_provider::{OutputEntry, OutputReader, Provider, ReadPosition};
use pinfold_store::{Row, SandboxFilter, Store};
use pinfold_store_sqlite::SqliteStore;
use tempfile::TempDir;

use crate::first_byte::{LogWatch, first_byte};
use crate::timed::{TimedProvider, TimedStore};
use crate::timeline::Timeline;

/// The hidden command under which this program is its own spawner.
pub(crate) const SPAWNER: &str = "__spawner";
/// Limits of a sandbox unless a benchmark sets others: the default profile.
pub(crate) const LIMITS: Limits = DEFAULT.limits;
/// Instances in the pool, where there is one.
const POOLED: u64 = 4;
/// How long a benchmark waits for anything.
pub(crate) const TIMEOUT_MS: u64 = 120_000;

pub(crate) struct Host {
    pub(crate) engine: Engine,
    provider: Arc<LinuxProvider>,
    store: Arc<SqliteStore>,
    clock: Arc<HostClock>,
    /// Dropped last.
    data: TempDir,
}

/// A directory on disk on every host, and short enough for the path of a socket.
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

    /// With every provider call and every commit recorded.
    pub(crate) async fn begin_timed(timeline: Arc<Timeline>) -> Result<Self> {
        Self::begin_with(Some(timeline), Vec::new()).await
    }

    /// With a warm pool.
    pub(crate) async fn begin_pooled(timeline: Option<Arc<Timeline>>) -> Result<Self> {
        let plan = PoolPlan { shape: shape(), policy: pooled_policy(), size: POOLED };
        Self::begin_with(timeline, vec![plan]).await
    }

    /// Waits until the pool is full, so that no instance is launched during a measurement.
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
            let waiting = self.store.pool_members(&shape(), None, 2 * all).await?;
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
        let liveness = HostLiveness::take()?;
        let clock = Arc::new(HostClock::anchored(data.path(), liveness.boot_id())?);
        let store = Arc::new(SqliteStore::open(&data.path().join("store"))?);
        let provider = Arc::new(provider(data.path(), store.store_id(), clock.clone())?);
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
            artifacts: Arc::new(DiscardArtifacts),
            clock: clock.clone(),
            ids: Arc::new(RandomIds),
            liveness: Arc::new(liveness),
        };
        let engine = Engine::start(parts, Config { pool, ..Config::default() }).await?;
        Ok(Self { engine, provider, store, clock, data })
    }

    /// Creates a sandbox and waits until it is ready.
    pub(crate) async fn ready(&self, limits: Limits) -> Result<SandboxId> {
        let sandbox = self.engine.create(create_request(limits, false)).await?;
        self.wait_ready(sandbox).await?;
        Ok(sandbox)
    }

    pub(crate) async fn wait_ready(&self, sandbox: SandboxId) -> Result<()> {
        match self.engine.wait_ready(sandbox, self.deadline()).await? {
            WaitOutcome::Met(Ok(())) => Ok(()),
            WaitOutcome::Met(Err(cause)) => bail!("{sandbox} ended before it was ready: {cause:?}"),
            WaitOutcome::DeadlinePassed => bail!("{sandbox} is not ready in time"),
        }
    }

    /// Creates a sandbox and its first execution in one request.
    pub(crate) async fn run(&self, ask: CreateRequest, argv: &[&str]) -> Result<(SandboxId, ExecutionId)> {
        let limits = ExecutionLimits::default();
        let run = RunRequest { command: command(argv), kind: ExecutionKind::Run, limits };
        Ok(self.engine.create_and_execute(ask, run).await?)
    }

    pub(crate) async fn execute(&self, sandbox: SandboxId, argv: &[&str]) -> Result<ExecutionId> {
        let (run, limits) = (ExecutionKind::Run, ExecutionLimits::default());
        Ok(self.engine.execute(sandbox, command(argv), run, limits, true).await?)
    }

    fn reader(&self, sandbox: SandboxId, execution: ExecutionId) -> Box<dyn OutputReader> {
        self.provider.output().reader(sandbox, execution, ReadPosition::default())
    }

    /// Waits until the caller can read the command's first output.
    pub(crate) async fn first_byte(&self, sandbox: SandboxId, execution: ExecutionId) -> Result<LogWatch> {
        let directory = self.data.path().join("linux/logs").join(sandbox.to_string());
        first_byte(self.reader(sandbox, execution), &directory).await
    }

    pub(crate) async fn wait_execution(&self, sandbox: SandboxId, execution: ExecutionId) -> Result<Cause> {
        match self.engine.wait_execution(sandbox, execution, self.deadline()).await? {
            WaitOutcome::Met(outcome) => Ok(outcome.cause),
            WaitOutcome::DeadlinePassed => bail!("{execution} did not end in time"),
        }
    }

    /// All output so far.
    pub(crate) fn output(&self, sandbox: SandboxId, execution: ExecutionId) -> Result<Vec<u8>> {
        let (mut log, mut written) = (self.reader(sandbox, execution), Vec::new());
        while let Some(entry) = log.next()? {
            if let OutputEntry::Chunk(piece) = entry {
                written.extend(piece.bytes);
            }
        }
        Ok(written)
    }

    /// Waits for the durable receipt.
    pub(crate) async fn wait_gone(&self, sandbox: SandboxId) -> Result<()> {
        proven(sandbox, &self.engine.wait_gone(sandbox, TIMEOUT_MS).await?)
    }

    /// Stops it and waits for the durable receipt.
    pub(crate) async fn stop(&self, sandbox: SandboxId, cause: Cause) -> Result<()> {
        proven(sandbox, &self.engine.stop(sandbox, cause, Some(0), TIMEOUT_MS).await?)
    }

    /// All sandboxes that are not yet proven gone.
    pub(crate) async fn present(&self) -> Result<Vec<SandboxId>> {
        let mut present = Vec::new();
        loop {
            let page = self.store.list(SandboxFilter::Present, present.last().copied(), 500).await?;
            if page.is_empty() {
                return Ok(present);
            }
            present.extend(page.iter().map(pinfold_store::Row::id));
        }
    }

    /// Stops all sandboxes that are left.
    pub(crate) async fn end(&self) -> Result<()> {
        let left = self.present().await?;
        let stops = stream::iter(left).map(|id| self.stop(id, Cause::Shutdown)).buffer_unordered(64);
        let failed: Vec<_> = stops.filter_map(|stopped| async { stopped.err() }).collect().await;
        failed.into_iter().next().map_or(Ok(()), Err)
    }

    /// Stops everything that is left, the pool too.
    pub(crate) async fn close(&self) -> Result<()> {
        Ok(self.engine.shutdown(OnExit::Stop, TIMEOUT_MS).await.map(drop)?)
    }

    fn deadline(&self) -> Timestamp {
        self.clock.now().after_ms(TIMEOUT_MS)
    }
}

fn provider(data: &Path, instance: u128, clock: Arc<HostClock>) -> Result<LinuxProvider> {
    let program = std::env::current_exe().context("could not find this program's own file")?;
    Ok(LinuxProvider::open(LinuxConfig {
        data: data.join("linux"),
        store_id: instance,
        spawner: SpawnerProgram { program, arguments: vec![SPAWNER.into()] },
        clock: Arc::new(move || clock.now()),
    })?)
}

pub(crate) fn create_request(limits: Limits, one_shot: bool) -> CreateRequest {
    let policy = Policy { one_shot, ends_with_owner: true, grace_ms: 0, ..Policy::default() };
    CreateRequest {
        spec: Spec { limits, ..Spec::default() }.into(),
        policy: policy.into(),
        ..CreateRequest::default()
    }
}

/// A request that a pooled instance can serve.
pub(crate) fn pooled_create_request() -> CreateRequest {
    CreateRequest {
        spec: Spec { limits: LIMITS, ..Spec::default() }.into(),
        policy: pooled_policy().into(),
        key: None,
        queue: None,
        first: None,
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

fn proven(sandbox: SandboxId, stop: &StopProgress) -> Result<()> {
    match stop {
        StopProgress::Gone { .. } => Ok(()),
        StopProgress::Pending => bail!("{sandbox} could not be proven gone in time"),
    }
}
