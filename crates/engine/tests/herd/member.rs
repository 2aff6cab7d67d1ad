//! One process of the herd: an engine on the shared store, and a user who asks it for things without end.

use std::io::{Read, Write};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pinfold_engine::{Clock, Config, CreateAsk, Engine, HostCensus, HostClock, Parts, RandomIds, Stop};
use pinfold_lifecycle::{
    Cause, Command, ExecutionKind, ExecutionLimits, Guards, Policy, Recovery, SandboxId, Timestamp,
};
use pinfold_provider::fake::{Call, FakeProvider, FakeWorld, Fault, Forecast, Weather};
use pinfold_store::{Filter, Row, SqliteStore, Store};

pub(crate) fn live(directory: &Path) {
    end_with_the_parent();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let (engine, store) = begin(directory, Wind::Gusty).await;
        loop {
            wish(&engine, store.as_ref()).await;
        }
    });
}

/// The parent holds the other end of standard input; whatever happens to it, that end closes with it.
fn end_with_the_parent() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::abort();
    });
}

pub(crate) async fn begin(directory: &Path, wind: Wind) -> (Engine, Arc<SqliteStore>) {
    let census = HostCensus::take().unwrap();
    let clock = Arc::new(HostClock::anchored(directory, census.boot_id()).unwrap());
    let store = Arc::new(SqliteStore::open(&directory.join("store")).unwrap());
    let world = Arc::new(FakeWorld::on_file(directory.join("world.json")));
    let weather = Arc::new(HostWeather { clock: clock.clone(), wind });
    let parts = Parts {
        store: store.clone(),
        provider: Arc::new(FakeProvider::new(world, weather, Guards::default())),
        clock,
        ids: Arc::new(RandomIds),
        census: Arc::new(census),
    };
    let config = Config { heartbeat_ms: 500, reconcile_every_ms: 5_000, ..Config::default() };
    (Engine::begin(parts, config).await.unwrap(), store)
}

/// One wish about one of the sandboxes that are there, whoever made them. What fails is another's luck.
async fn wish(engine: &Engine, store: &SqliteStore) {
    let present = store.list(Filter::Present, None, 100).await.unwrap();
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
        quarantine_look_ms: 1_000,
        queued_ms: 5_000,
        kill_ms: 3_000,
        side_by_side: 3,
        queue_length: 3,
        recovery: fastrand::bool().then_some(Recovery { tries: 3, backoff_ms: 50 }),
        ..Policy::default()
    };
    if let Ok(id) = engine.create(CreateAsk { policy, ..CreateAsk::default() }).await {
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
    if let Ok(Stop::Gone { .. }) = engine.stop(id, Cause::StoppedByUser, true, 1_000).await {
        say("gone", &id.to_string());
    }
}

/// One write, so that a line is whole or not there.
fn say(what: &str, id: &str) {
    std::io::stdout().write_all(format!("{what} {id}\n").as_bytes()).unwrap();
    std::io::stdout().flush().unwrap();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wind {
    Calm,
    Gusty,
}

/// The fake provider's weather on this host's own clock.
struct HostWeather {
    clock: Arc<HostClock>,
    wind: Wind,
}

impl Weather for HostWeather {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }

    fn forecast(&self, _call: Call) -> Forecast {
        if self.wind == Wind::Calm {
            return Forecast::default();
        }
        let fault = (fastrand::u8(0..50) == 0).then(|| {
            let faults = [Fault::Fails, Fault::HalfDone, Fault::AnswerLost, Fault::LookFails];
            faults[fastrand::usize(0..faults.len())]
        });
        let wait = || fastrand::u64(0..10);
        Forecast { before_ms: wait(), halfway_ms: wait(), after_ms: wait(), fault }
    }
}
