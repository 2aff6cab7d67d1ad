//! The log of a real sandbox: its executions write at once while engines come and go, and it is read to its end by
//! somebody who remembers nothing but a place.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "ground/config.rs"]
mod config;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use config::config;
use pinfold_engine::{
    Census, Clock, Config, CreateAsk, Engine, Fate, HostCensus, HostClock, Parts, RandomIds, Stop, Waited,
};
use pinfold_lifecycle::{
    Cause, Command, ExecutionId, ExecutionKind, ExecutionLimits, NodeId, SandboxId, Timestamp,
};
use pinfold_linux::{LinuxConfig, LinuxProvider};
use pinfold_logs::{Cursor, Entry, Limit, Logs, Moved, Objects, Source};
use pinfold_store::{NodeSeen, SqliteStore, Store};

const PATIENCE: Duration = Duration::from_secs(60);
const LINES: usize = 150;

/// One process of ours, as far as sandboxes can tell. Dropping it is a crash.
struct Node {
    engine: Engine,
    clock: Arc<HostClock>,
    logs: Logs,
}

/// One node after another in this one process: whoever came before is dead.
struct Alone {
    host: HostCensus,
    me: OnceLock<NodeId>,
}

impl Census for Alone {
    fn me(&self, id: NodeId) -> pinfold_store::Node {
        self.host.me(*self.me.get_or_init(|| id))
    }

    fn fate_of(&self, other: &NodeSeen, _: Timestamp, _: u64) -> Fate {
        if self.me.get() == Some(&other.node.id) { Fate::Alive } else { Fate::Dead }
    }
}

impl Node {
    async fn begin(data: &Path) -> Self {
        let census = HostCensus::take().unwrap();
        let clock = Arc::new(HostClock::anchored(data, census.boot_id()).unwrap());
        let store = Arc::new(SqliteStore::open(&data.join("store")).unwrap());
        let now = clock.clone();
        let provider = LinuxProvider::open(LinuxConfig {
            data: data.join("linux"),
            instance: store.instance(),
            clock: Arc::new(move || now.now()),
            ..config(data)
        });
        let provider = Arc::new(provider.unwrap());
        let objects = Objects::local(&data.join("objects")).unwrap();
        let logs = Logs::new(store.clone(), provider.outputs(), objects);
        let census = Arc::new(Alone { host: census, me: OnceLock::new() });
        let parts = Parts { store, provider, clock: clock.clone(), ids: Arc::new(RandomIds), census };
        Self { engine: Engine::begin(parts, Config::default()).await.unwrap(), clock, logs }
    }

    fn soon(&self) -> Timestamp {
        self.clock.now().after_ms(60_000)
    }
}

/// The sandbox goes when the test does, however it ends.
struct Guard {
    data: tempfile::TempDir,
    sandbox: SandboxId,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (data, sandbox) = (self.data.path().to_owned(), self.sandbox);
        let stop = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let node = Node::begin(&data).await;
                node.engine.stop(sandbox, Cause::StoppedByUser, true, 30_000).await
            })
        };
        let stopped = std::thread::spawn(stop).join();
        if !std::thread::panicking() {
            assert!(matches!(stopped, Ok(Ok(Stop::Gone { .. }))), "{stopped:?}");
        }
    }
}

fn counter(name: &str) -> Command {
    let script = format!(
        "i=0; while [ $i -lt {LINES} ]; do echo {name} $i; echo {name} says $i >&2; i=$((i+1)); sleep 0.01; done"
    );
    Command { argv: ["sh", "-c", &script].map(str::to_owned).to_vec(), ..Command::default() }
}

/// Reads on from a place that is kept as text, until something tells that it was enough.
async fn read_on(node: &Node, sandbox: SandboxId, place: &mut String, seen: &mut Vec<Entry>) -> bool {
    let limit = Limit { entries: 7, bytes: 1 << 20 };
    let mut follow = node.logs.follow(sandbox, place.parse().unwrap(), limit);
    let page = follow.next(Duration::from_millis(500)).await.unwrap();
    *place = page.next.to_string();
    seen.extend(page.entries);
    page.over
}

fn written(seen: &[Entry], execution: ExecutionId, source: Source) -> String {
    let own = seen.iter().filter(|entry| entry.execution == Some(execution) && entry.source == source);
    own.map(|entry| entry.text().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_with_nothing_but_a_place_sees_all_of_a_real_sandbox_once() {
    let data = tempfile::tempdir().unwrap();
    let mut node = Node::begin(data.path()).await;
    let sandbox = node.engine.create(CreateAsk::default()).await.unwrap();
    let guard = Guard { data, sandbox };
    let mut executions = Vec::new();
    for name in ["one", "two", "three"] {
        let ran =
            node.engine.execute(sandbox, counter(name), ExecutionKind::Run, ExecutionLimits::default(), true);
        executions.push((name, ran.await.unwrap()));
    }
    let (mut place, mut seen) = (Cursor::default().to_string(), Vec::new());
    let reading = async {
        // Crashes, some of them while everything runs.
        for _ in 0..4 {
            for _ in 0..10 {
                assert!(!read_on(&node, sandbox, &mut place, &mut seen).await);
            }
            drop(node);
            node = Node::begin(guard.data.path()).await;
        }
        for (_, execution) in &executions {
            let ended = node.engine.wait_execution(sandbox, *execution, node.soon()).await.unwrap();
            assert!(matches!(ended, Waited::Met(outcome) if outcome.exit_code == Some(0)));
        }
        let stopped = node.engine.stop(sandbox, Cause::StoppedByUser, true, 30_000).await.unwrap();
        assert!(matches!(stopped, Stop::Gone { .. }));
        read_on(&node, sandbox, &mut place, &mut seen).await;
        let moved = node.logs.move_one(sandbox).await.unwrap();
        assert!(matches!(moved, Moved::Moved { .. }), "{moved:?}");
        while !read_on(&node, sandbox, &mut place, &mut seen).await {}
        node
    };
    let node = tokio::time::timeout(PATIENCE, reading).await.unwrap();

    let all = Limit { entries: usize::MAX, bytes: usize::MAX };
    let whole = node.logs.read(sandbox, &Cursor::default(), all).await.unwrap().entries;
    for seen in [&seen, &whole] {
        for (name, execution) in &executions {
            let out: String = (0..LINES).map(|line| format!("{name} {line}\n")).collect();
            let err: String = (0..LINES).map(|line| format!("{name} says {line}\n")).collect();
            assert_eq!(written(seen, *execution, Source::Stdout), out);
            assert_eq!(written(seen, *execution, Source::Stderr), err);
        }
        let last = seen.last().unwrap().text().unwrap();
        assert_eq!(last, "sandbox ended: stopped_by_user");
    }
    assert!(!guard.data.path().join("linux/logs").join(sandbox.to_string()).exists());
}
