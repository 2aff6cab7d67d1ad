//! A sandbox that is driven through its real lifecycle, whose executions write with the keeper's own writer.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_keeper::log::{Onset, Ring, Stream, Writer};
use pinfold_lifecycle::{Event, ExecutionId, ExecutionState, Fence, Outcome, Policy, SandboxId, Timestamp};
use pinfold_logs::{Content, Cursor, Entry, Limit, Logs, Objects, Source};
use pinfold_store::SqliteStore;
use pinfold_store::conformance::World;
use pinfold_store::conformance::world::{NODE, NOON};

pub(crate) const SANDBOX: u128 = 1;
pub(crate) const ID: SandboxId = SandboxId(SANDBOX);

pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) logs: Logs,
    pub(crate) directory: PathBuf,
    writers: BTreeMap<u128, Writer>,
    _own: Option<tempfile::TempDir>,
}

pub(crate) fn all() -> Limit {
    Limit { entries: usize::MAX, bytes: usize::MAX }
}

pub(crate) fn entries(count: usize) -> Limit {
    Limit { entries: count, bytes: usize::MAX }
}

impl Stage {
    /// With a sandbox that is ready.
    pub(crate) async fn ready() -> Self {
        let own = tempfile::tempdir().unwrap();
        let stage = Self::ready_in(own.path()).await;
        Self { _own: Some(own), ..stage }
    }

    pub(crate) async fn ready_in(directory: &Path) -> Self {
        let stage = Self::over(directory);
        stage.world.live(SANDBOX).await;
        fs::create_dir_all(stage.outputs()).unwrap();
        stage
    }

    /// On whatever is there.
    pub(crate) fn over(directory: &Path) -> Self {
        let objects = Objects::local(&directory.join("objects")).unwrap();
        Self::with_objects(directory, objects)
    }

    pub(crate) fn with_objects(directory: &Path, objects: Objects) -> Self {
        let store = Arc::new(SqliteStore::open(&directory.join("store")).unwrap());
        let logs = Logs::new(store.clone(), &directory.join("logs"), objects);
        let policy = Policy { side_by_side: 16, ..Policy::default() };
        let world = World { store, now: NOON, node: NODE, policy };
        Self { world, logs, directory: directory.to_owned(), writers: BTreeMap::new(), _own: None }
    }

    pub(crate) fn outputs(&self) -> PathBuf {
        self.directory.join("logs").join(ID.to_string())
    }

    /// An execution that runs, but has written nothing.
    pub(crate) async fn start(&mut self, execution: u128) {
        self.ask(execution).await;
        self.record_start(execution).await;
    }

    /// One that may run, as far as anybody knows.
    pub(crate) async fn ask(&mut self, execution: u128) {
        self.world.execute(SANDBOX, execution).await;
        self.begin_output(execution, Ring::DEFAULT);
    }

    pub(crate) fn begin_output(&mut self, execution: u128, ring: Ring) {
        let directory = File::open(self.outputs()).unwrap().into();
        let writer =
            Writer::begin(directory, &ExecutionId(execution).to_string(), ring, Onset::default()).unwrap();
        self.writers.insert(execution, writer);
    }

    pub(crate) async fn record_start(&self, execution: u128) {
        let ticket = self.ticket(execution).await;
        let execution = ExecutionId(execution);
        self.world.step(SANDBOX, Event::ExecutionStarted { ticket, execution }).await;
    }

    pub(crate) fn write(&mut self, execution: u128, bytes: impl AsRef<[u8]>) {
        self.write_to(execution, Stream::Stdout, bytes);
    }

    /// Every piece a millisecond after the one before.
    pub(crate) fn write_to(&mut self, execution: u128, stream: Stream, bytes: impl AsRef<[u8]>) {
        self.world.later(1);
        let writer = self.writers.get_mut(&execution).unwrap();
        writer.append(stream, self.world.now.0, bytes.as_ref()).unwrap();
    }

    pub(crate) async fn finish(&self, execution: u128) {
        let ticket = self.ticket(execution).await;
        let (execution, outcome) = (ExecutionId(execution), Outcome::exited(0));
        self.world.step(SANDBOX, Event::ExecutionEnded { ticket, execution, outcome }).await;
    }

    /// The sandbox ends, and is proven gone.
    pub(crate) async fn end(&self) {
        self.world.end(SANDBOX).await;
    }

    async fn ticket(&self, execution: u128) -> Fence {
        let sandbox = self.world.sandbox(SANDBOX).await;
        let execution = sandbox.executions.iter().find(|known| known.id.0 == execution).unwrap();
        match &execution.state {
            ExecutionState::Starting { duty } => duty.ticket,
            ExecutionState::Running { watch, .. } => watch.ticket,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn read_all(&self) -> Vec<Entry> {
        self.read_after(&Cursor::default()).await
    }

    pub(crate) async fn read_after(&self, after: &Cursor) -> Vec<Entry> {
        self.logs.read(ID, after, all()).await.unwrap().entries
    }
}

pub(crate) fn text(entry: &Entry) -> String {
    entry.text().unwrap()
}

/// What an execution wrote, as far as entries tell.
pub(crate) fn written(entries: &[Entry], execution: u128) -> String {
    let own = entries
        .iter()
        .filter(|entry| entry.execution == Some(ExecutionId(execution)) && entry.source != Source::Control);
    own.map(text).collect()
}

/// Entries without their places, which differ from reader to reader.
pub(crate) fn told(entries: &[Entry]) -> Vec<(Timestamp, Source, Option<ExecutionId>, Content)> {
    entries.iter().map(|it| (it.at, it.source, it.execution, it.content.clone())).collect()
}
