//! The log of a real sandbox: executions write concurrently while engines crash and restart, and a reader that keeps
//! only a cursor reads all of it.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "fixture/config.rs"]
mod config;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use config::config;
use pinfold_engine::{
    Clock, Config, CreateRequest, DiscardArtifacts, Engine, HostClock, HostLiveness, Liveness, NodeLiveness,
    Parts, RandomIds, StopProgress, WaitOutcome,
};
use pinfold_lifecycle::{
    Cause, Command, ExecutionId, ExecutionKind, ExecutionLimits, NodeId, SandboxId, Timestamp,
};
use pinfold_linux::{LinuxConfig, LinuxProvider};
use pinfold_logs::{Cursor, LogEntry, Logs, MoveOutcome, ObjectStorage, PageLimit, Source};
use pinfold_provider::Provider as _;
use pinfold_store::{RegisteredNode, Store};
use pinfold_store_sqlite::SqliteStore;

const TIMEOUT: Duration = Duration::from_secs(60);
const LINES: usize = 150;

/// One node. Dropping it simulates a crash.
struct Node {
    engine: Engine,
    clock: Arc<HostClock>,
    logs: Logs,
}

/// Nodes run one after another in this process: all earlier ones are dead.
struct OnlyNode {
    host: HostLiveness,
    me: OnceLock<NodeId>,
}

impl NodeLiveness for OnlyNode {
    fn this_node(&self, id: NodeId) -> pinfold_store::Node {
        self.host.this_node(*self.me.get_or_init(|| id))
    }

    fn liveness_of(&self, other: &RegisteredNode, _: Timestamp, _: u64) -> Liveness {
        if self.me.get() == Some(&other.node.id) { Liveness::Alive } else { Liveness::Dead }
    }
}

impl Node {
    async fn begin(data: &Path) -> Self {
        let liveness = HostLiveness::take().unwrap();
        let clock = Arc::new(HostClock::anchored(data, liveness.boot_id()).unwrap());
        let store = Arc::new(SqliteStore::open(&data.join("store")).unwrap());
        let now = clock.clone();
        let provider = LinuxProvider::open(LinuxConfig {
            data: data.join("linux"),
            store_id: store.store_id(),
            clock: Arc::new(move || now.now()),
            ..config(data)
        });
        let provider = Arc::new(provider.unwrap());
        let objects = ObjectStorage::local(&data.join("objects")).unwrap();
        let logs = Logs::new(store.clone(), provider.output(), &data.join("moved"), objects);
        let liveness = Arc::new(OnlyNode { host: liveness, me: OnceLock::new() });
        let parts = Parts {
            store,
            provider,
            artifacts: Arc::new(DiscardArtifacts),
            clock: clock.clone(),
            ids: Arc::new(RandomIds),
            liveness,
        };
        Self { engine: Engine::start(parts, Config::default()).await.unwrap(), clock, logs }
    }

    fn soon(&self) -> Timestamp {
        self.clock.now().after_ms(60_000)
    }
}

/// Stops the sandbox at the end of the test.
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
                node.engine.stop(sandbox, Cause::StoppedByUser, Some(0), 30_000).await
            })
        };
        let stopped = std::thread::spawn(stop).join();
        if !std::thread::panicking() {
            assert!(matches!(stopped, Ok(Ok(StopProgress::Gone { .. }))), "{stopped:?}");
        }
    }
}

fn counter(name: &str) -> Command {
    let script = format!(
        "i=0; while [ $i -lt {LINES} ]; do echo {name} $i; echo {name} says $i >&2; i=$((i+1)); sleep 0.01; done"
    );
    Command { argv: ["sh", "-c", &script].map(str::to_owned).to_vec(), ..Command::default() }
}

/// Reads on from a cursor kept as text.
async fn read_on(node: &Node, sandbox: SandboxId, cursor: &mut String, seen: &mut Vec<LogEntry>) -> bool {
    let limit = PageLimit { entries: 7, bytes: 1 << 20 };
    let mut follow = node.logs.follow(sandbox, cursor.parse().unwrap(), limit);
    let page = follow.next(Duration::from_millis(500)).await.unwrap();
    *cursor = page.next.to_string();
    seen.extend(page.entries);
    page.finished
}

fn written(seen: &[LogEntry], execution: ExecutionId, source: Source) -> String {
    let own = seen.iter().filter(|entry| entry.execution == Some(execution) && entry.source == source);
    own.map(|entry| entry.text().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_with_only_a_cursor_sees_every_log_entry_of_a_sandbox_once() {
    let data = tempfile::tempdir().unwrap();
    let mut node = Node::begin(data.path()).await;
    let sandbox = node.engine.create(CreateRequest::default()).await.unwrap();
    let guard = Guard { data, sandbox };
    let mut executions = Vec::new();
    for name in ["one", "two", "three"] {
        let ran =
            node.engine.execute(sandbox, counter(name), ExecutionKind::Run, ExecutionLimits::default(), true);
        executions.push((name, ran.await.unwrap()));
    }
    let (mut cursor, mut seen) = (Cursor::default().to_string(), Vec::new());
    let reading = async {
        // Crashes, some of them while executions run.
        for _ in 0..4 {
            for _ in 0..10 {
                assert!(!read_on(&node, sandbox, &mut cursor, &mut seen).await);
            }
            drop(node);
            node = Node::begin(guard.data.path()).await;
        }
        for (_, execution) in &executions {
            let ended = node.engine.wait_execution(sandbox, *execution, node.soon()).await.unwrap();
            assert!(matches!(ended, WaitOutcome::Met(outcome) if outcome.exit_code == Some(0)));
        }
        let stopped = node.engine.stop(sandbox, Cause::StoppedByUser, Some(0), 30_000).await.unwrap();
        assert!(matches!(stopped, StopProgress::Gone { .. }));
        read_on(&node, sandbox, &mut cursor, &mut seen).await;
        let moved = node.logs.move_one(sandbox).await.unwrap();
        assert!(matches!(moved, MoveOutcome::Moved { .. }), "{moved:?}");
        while !read_on(&node, sandbox, &mut cursor, &mut seen).await {}
        node
    };
    let node = tokio::time::timeout(TIMEOUT, reading).await.unwrap();

    let all = PageLimit { entries: usize::MAX, bytes: usize::MAX };
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
