//! A real engine on a data directory, assembled as in the `pinfold` program.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use pinfold_engine::{Clock, Config, DiscardArtifacts, Engine, HostClock, HostLiveness, Parts, RandomIds};
use pinfold_lifecycle::{Command, Timestamp};
use pinfold_linux::{LinuxConfig, LinuxProvider, SpawnerProgram};
use pinfold_store::{Row, SandboxFilter, Store, StoredSandbox};
use pinfold_store_sqlite::SqliteStore;

/// The hidden command under which this program is its own spawner.
pub(crate) const SPAWNER: &str = "__spawner";

pub(crate) struct Node {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<SqliteStore>,
    clock: Arc<HostClock>,
}

impl Node {
    pub(crate) async fn begin(data: &Path) -> anyhow::Result<Self> {
        let liveness = HostLiveness::take()?;
        let clock = Arc::new(HostClock::anchored(data, liveness.boot_id())?);
        let store = Arc::new(SqliteStore::open(&data.join("store"))?);
        let now = clock.clone();
        let provider = Arc::new(LinuxProvider::open(LinuxConfig {
            data: data.join("linux"),
            store_id: store.store_id(),
            spawner: SpawnerProgram { program: std::env::current_exe()?, arguments: vec![SPAWNER.into()] },
            clock: Arc::new(move || now.now()),
        })?);
        let parts = Parts {
            store: store.clone(),
            provider,
            artifacts: Arc::new(DiscardArtifacts),
            clock: clock.clone(),
            ids: Arc::new(RandomIds),
            liveness: Arc::new(liveness),
        };
        let engine = Engine::start(parts, Config::default()).await?;
        Ok(Self { engine, store, clock })
    }

    pub(crate) fn in_ms(&self, ms: u64) -> Timestamp {
        self.clock.now().after_ms(ms)
    }
}

pub(crate) fn shell(line: &str) -> Command {
    Command { argv: vec!["sh".into(), "-c".into(), line.into()], ..Command::default() }
}

/// The sandboxes that are not proven gone.
pub(crate) async fn present(store: &SqliteStore) -> anyhow::Result<Vec<StoredSandbox>> {
    let rows = store.list(SandboxFilter::Present, None, 100_000).await?;
    rows.into_iter()
        .map(|row| match row {
            Row::Readable(stored) => Ok(*stored),
            Row::Unreadable(row) => Err(anyhow::anyhow!("{} cannot be read: {}", row.id, row.why)),
        })
        .collect()
}

pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.context("could not make a runtime")
}
