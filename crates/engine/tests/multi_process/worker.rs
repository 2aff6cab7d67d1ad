//! A worker process: an engine on the shared store, and a user that sends random requests forever.

use std::io::{Read, Write};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pinfold_engine::{
    Clock, Config, CreateRequest, DiscardArtifacts, Engine, HostClock, HostLiveness, Parts, RandomIds,
    StopProgress,
};
use pinfold_lifecycle::{
    Cause, Command, ExecutionKind, ExecutionLimits, Guards, Policy, Recovery, SandboxId, Timestamp,
};
use pinfold_provider::fake::{Call, CallPlan, FakeProvider, FakeWorld, Fault, FaultPlan};
use pinfold_store::{Row, SandboxFilter, Store};
use pinfold_store_sqlite::SqliteStore;

pub(crate) fn live(directory: &Path) {
    end_with_the_parent();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let (engine, store) = start_engine(directory, FaultLevel::Random).await;
        loop {
            random_request(&engine, store.as_ref()).await;
        }
    });
}

/// The parent holds the other end of stdin, which closes when the parent dies.
fn end_with_the_parent() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::abort();
    });
}

pub(crate) async fn start_engine(directory: &Path, level: FaultLevel) -> (Engine, Arc<SqliteStore>) {
    let liveness = HostLiveness::take().unwrap();
    let clock = Arc::new(HostClock::anchored(directory, liveness.boot_id()).unwrap());
    let store = Arc::new(SqliteStore::open(&directory.join("store")).unwrap());
    let world = Arc::new(FakeWorld::on_file(directory.join("world.json")));
    let faults = Arc::new(HostFaults { clock: clock.clone(), level });
    let parts = Parts {
        store: store.clone(),
        provider: Arc::new(FakeProvider::new(world, faults, Guards::default())),
        artifacts: Arc::new(DiscardArtifacts),
        clock,
        ids: Arc::new(RandomIds),
        liveness: Arc::new(liveness),
    };
    let config = Config { heartbeat_ms: 500, reconcile_every_ms: 5_000, ..Config::default() };
    (Engine::start(parts, config).await.unwrap(), store)
}

/// Sends one random request for any present sandbox. Failures are expected.
async fn random_request(engine: &Engine, store: &SqliteStore) {
    let present = store.list(SandboxFilter::Present, None, 100).await.unwrap();
    let known: Vec<_> = present.iter().map(Row::id).collect();
    match (fastrand::u8(0..10), fastrand::choice(known.iter().copied())) {
        (0..=2, _) if known.len() < 20 => create(engine).await,
        (3..=6, Some(id)) => execute(engine, id).await,
        (7, Some(id)) => stop(engine, id).await,
        (8, Some(id)) => drop(engine.restart(id, Cause::Cancelled).await),
        (_, Some(id)) => drop(engine.keep_alive(id).await),
        (_, None) => {}
    }
    tokio::time::sleep(Duration::from_millis(fastrand::u64(1..20))).await;
}

async fn create(engine: &Engine) {
    let policy = Policy {
        start_ms: 8_000,
        probe_every_ms: 2_000,
        evidence_ms: 5_000,
        grace_ms: 0,
        stop_attempt_ms: 3_000,
        stop_backoff_ms: vec![100, 500],
        quarantine_observe_ms: 1_000,
        queued_ms: 5_000,
        kill_ms: 3_000,
        max_concurrent: 3,
        queue_length: 3,
        recovery: fastrand::bool().then_some(Recovery { attempts: 3, backoff_ms: 50 }),
        ..Policy::default()
    };
    if let Ok(id) = engine.create(CreateRequest { policy: policy.into(), ..CreateRequest::default() }).await {
        say("created", &id.to_string());
    }
}

async fn execute(engine: &Engine, id: SandboxId) {
    let argv = match fastrand::u8(0..3) {
        0 => vec!["true".to_owned()],
        1 => vec!["work".into(), fastrand::u64(1..3_000).to_string(), "0".into()],
        _ => vec!["hang".into()],
    };
    let limits = ExecutionLimits { timeout_ms: Some(4_000), inactivity_ms: None };
    let command = Command { argv, ..Command::default() };
    if let Ok(execution) = engine.execute(id, command, ExecutionKind::Run, limits, true).await {
        say("accepted", &execution.to_string());
    }
}

async fn stop(engine: &Engine, id: SandboxId) {
    if let Ok(StopProgress::Gone { .. }) = engine.stop(id, Cause::StoppedByUser, Some(0), 1_000).await {
        say("gone", &id.to_string());
    }
}

/// One write, so that lines are never torn.
fn say(what: &str, id: &str) {
    std::io::stdout().write_all(format!("{what} {id}\n").as_bytes()).unwrap();
    std::io::stdout().flush().unwrap();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultLevel {
    Calm,
    Random,
}

/// Faults of the fake provider, on the host's clock.
struct HostFaults {
    clock: Arc<HostClock>,
    level: FaultLevel,
}

impl FaultPlan for HostFaults {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }

    fn plan_call(&self, _call: Call) -> CallPlan {
        if self.level == FaultLevel::Calm {
            return CallPlan::default();
        }
        let fault = (fastrand::u8(0..50) == 0).then(|| {
            let faults = [Fault::Fails, Fault::HalfDone, Fault::AnswerLost, Fault::ObserveFails];
            faults[fastrand::usize(0..faults.len())]
        });
        let wait = || fastrand::u64(0..10);
        CallPlan { before_ms: wait(), halfway_ms: wait(), after_ms: wait(), fault }
    }
}
