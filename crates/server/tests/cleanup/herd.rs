//! Real sandboxes, some at work and some stuck in each of the ways to be stuck.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinfold_engine::{
    Census, Cleaner, Clock, Config, CreateAsk, Engine, HostCensus, HostClock, OnExit, Parts, RandomIds,
    Schedule,
};
use pinfold_lifecycle::{
    Command, Context, Execution, ExecutionKind, ExecutionLimits, ExecutionState, Lease, Limits, NodeId,
    Policy, SandboxId, Spec, Timestamp, Verdict, create,
};
use pinfold_linux::{LinuxConfig, LinuxProvider, NurseryProgram};
use pinfold_provider::Provider;
use pinfold_store::{Bid, NewSandbox, Row, SqliteStore, Store, Stored};

use crate::aged::Aged;
use crate::time::MovedClock;

pub(crate) const MINUTE: u64 = 60_000;
/// Older than anything that is stuck may be.
pub(crate) const SETTLE_MS: u64 = 60 * MINUTE;
const DAY: u64 = 24 * 60 * MINUTE;
/// A process that lives and never does what it was asked to.
const SLEEPER: NodeId = NodeId(77);
/// How long anything may take here before the test fails.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Herd {
    pub(crate) engine: Engine,
    pub(crate) cleaner: Arc<Cleaner>,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) provider: Arc<LinuxProvider>,
    pub(crate) clock: Arc<MovedClock>,
    pub(crate) began_at: Timestamp,
    broken: Arc<Mutex<BTreeSet<SandboxId>>>,
    data: tempfile::TempDir,
}

/// Nothing but the cleanup ends it.
fn patient() -> Policy {
    Policy {
        start_ms: 10 * DAY,
        unhealthy_age_ms: 10 * DAY,
        probe_every_ms: 10 * DAY,
        evidence_ms: 10 * DAY,
        idle_ms: None,
        max_life_ms: 10 * DAY,
        ..Policy::default()
    }
}

impl Herd {
    pub(crate) async fn begin() -> Self {
        let data = tempfile::tempdir().unwrap();
        let census = HostCensus::take().unwrap();
        let clock = MovedClock::over(HostClock::anchored(data.path(), census.boot_id()).unwrap());
        let store = Arc::new(SqliteStore::open(&data.path().join("store")).unwrap());
        let now = clock.clone();
        let provider = LinuxProvider::open(LinuxConfig {
            data: data.path().join("linux"),
            instance: store.instance(),
            nursery: NurseryProgram {
                program: env!("CARGO_BIN_EXE_pinfold-server-nursery").into(),
                arguments: Vec::new(),
            },
            clock: Arc::new(move || now.real_now()),
        });
        let provider = Arc::new(provider.unwrap());
        let broken = Arc::<Mutex<BTreeSet<SandboxId>>>::default();
        store.beat(census.me(SLEEPER), clock.now()).await.unwrap();
        let parts = Parts {
            store: store.clone(),
            provider: Arc::new(Aged {
                inner: provider.clone(),
                clock: clock.clone(),
                broken: broken.clone(),
            }),
            clock: clock.clone(),
            ids: Arc::new(RandomIds),
            census: Arc::new(census),
        };
        // One layer, no turn of it before time is moved, and nobody compares records with bodies meanwhile.
        let mut config = Config { reconcile_every_ms: 10 * DAY, ..Config::default() };
        config.cleanup.settle_ms = SETTLE_MS;
        let on_leap_days = Schedule::parse("0 0 29 2 *").unwrap();
        config.cleanup.by_age = on_leap_days.clone();
        config.cleanup.pressure = on_leap_days.clone();
        config.cleanup.reconcile = on_leap_days;
        let engine = Engine::begin(parts, config).await.unwrap();
        let began_at = clock.now();
        let cleaner = engine.keep_clean(store.clone(), None);
        Self { began_at, engine, cleaner, store, provider, clock, broken, data }
    }

    async fn live(&self, policy: Policy) -> SandboxId {
        let limits = Limits { memory_mb: Some(32), ..Limits::default() };
        let ask = CreateAsk { spec: Spec { limits, ..Spec::default() }, policy, key: None, queue: None };
        let id = self.engine.create(ask).await.unwrap();
        self.until(id, |stored| matches!(stored.sandbox.lease, Lease::Live(_))).await;
        id
    }

    pub(crate) async fn running(&self, script: &str) -> SandboxId {
        let id = self.live(patient()).await;
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        let command = Command { argv, ..Command::default() };
        let limits = ExecutionLimits::default();
        self.engine.execute(id, command, ExecutionKind::Run, limits, true).await.unwrap();
        let runs = |execution: &Execution| matches!(execution.state, ExecutionState::Running { .. });
        self.until(id, |stored| stored.sandbox.executions.iter().any(runs)).await;
        id
    }

    pub(crate) async fn doing_nothing(&self) -> SandboxId {
        self.live(patient()).await
    }

    /// Somebody was to launch it and never did.
    pub(crate) async fn never_ready(&self, number: u128) -> SandboxId {
        let (id, policy) = (SandboxId(number), patient());
        let ctx = Context { now: self.clock.now(), node: SLEEPER, policy: &policy };
        let new = NewSandbox {
            transition: create(id, ctx),
            spec: Arc::new(Spec::default()),
            policy: Arc::new(policy.clone()),
            key: None,
            commands: Vec::new(),
            bid: Bid::default(),
        };
        self.store.create(new, *self.engine.admission()).await.unwrap();
        id
    }

    /// Its end has a time that nobody is going to notice.
    pub(crate) async fn overdue(&self) -> SandboxId {
        let id = self.live(Policy { max_life_ms: 20 * MINUTE, ..patient() }).await;
        let rows = rusqlite::Connection::open(self.data.path().join("store/pinfold.db")).unwrap();
        let forgotten = format!("UPDATE sandboxes SET next_deadline = NULL WHERE id = '{id}'");
        assert_eq!(rows.execute(&forgotten, []), Ok(1));
        id
    }

    /// All of them fail their probes once time is moved, and are known for it when this returns.
    pub(crate) async fn unhealthy(&self, count: usize) -> Vec<SandboxId> {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(self.live(Policy { probe_every_ms: 4 * MINUTE, ..patient() }).await);
        }
        self.broken.lock().unwrap().extend(&all);
        self.clock.move_by(5 * MINUTE);
        for id in &all {
            let unhealthy = |stored: &Stored| match &stored.sandbox.lease {
                Lease::Live(live) => matches!(live.health.verdict, Verdict::Unhealthy { .. }),
                _ => false,
            };
            self.until(*id, unhealthy).await;
        }
        all
    }

    pub(crate) async fn stored(&self, id: SandboxId) -> Stored {
        match self.store.load(id).await.unwrap() {
            Some(Row::Readable(stored)) => *stored,
            other => panic!("{id}: {other:?}"),
        }
    }

    async fn until(&self, id: SandboxId, like_this: impl Fn(&Stored) -> bool) {
        self.in_time(async {
            while !like_this(&self.stored(id).await) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }

    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::time::timeout(PATIENCE, work).await.expect("it took too long")
    }

    /// The sandboxes that have a body.
    pub(crate) async fn bodies(&self) -> BTreeMap<SandboxId, bool> {
        let found = self.provider.discover().await.unwrap().found;
        found.into_iter().map(|found| (found.body.sandbox, found.whole)).collect()
    }

    /// Nothing is left, however the test ended.
    pub(crate) async fn end(&self) {
        self.engine.shutdown(OnExit::Stop, 60_000).await.ok();
        for found in self.provider.discover().await.unwrap().found {
            self.provider.stop(found.body, 0).await;
        }
        assert_eq!(self.bodies().await.len(), 0);
    }
}
