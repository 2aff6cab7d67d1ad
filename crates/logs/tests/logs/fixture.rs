//! One sandbox, driven through its real lifecycle. Its executions write with the keeper's log writer.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_lifecycle::{Event, ExecutionId, ExecutionState, Fence, Outcome, Policy, SandboxId, Timestamp};
use pinfold_linux::OutputDirectory;
use pinfold_logs::{Cursor, EntryContent, LogEntry, Logs, ObjectStorage, PageLimit, Source};
use pinfold_output_log::{LogPosition, LogWriter, OutputStream, RingSize};
use pinfold_store::conformance::StoreFixture;
use pinfold_store::conformance::fixture::{NODE, NOON};
use pinfold_store_sqlite::SqliteStore;

pub(crate) const SANDBOX: u128 = 1;
pub(crate) const ID: SandboxId = SandboxId(SANDBOX);

pub(crate) struct Fixture {
    pub(crate) driver: StoreFixture,
    pub(crate) logs: Logs,
    pub(crate) directory: PathBuf,
    writers: BTreeMap<u128, LogWriter>,
    _own: Option<tempfile::TempDir>,
}

pub(crate) fn all() -> PageLimit {
    PageLimit { entries: usize::MAX, bytes: usize::MAX }
}

pub(crate) fn entries(count: usize) -> PageLimit {
    PageLimit { entries: count, bytes: usize::MAX }
}

impl Fixture {
    /// A fixture with a sandbox that is ready.
    pub(crate) async fn ready() -> Self {
        let own = tempfile::tempdir().unwrap();
        let fixture = Self::ready_in(own.path()).await;
        Self { _own: Some(own), ..fixture }
    }

    pub(crate) async fn ready_in(directory: &Path) -> Self {
        let fixture = Self::over(directory);
        fixture.driver.create_ready(SANDBOX).await;
        fs::create_dir_all(fixture.outputs()).unwrap();
        fixture
    }

    /// A fixture on an existing directory.
    pub(crate) fn over(directory: &Path) -> Self {
        let objects = ObjectStorage::local(&directory.join("objects")).unwrap();
        Self::with_objects(directory, objects)
    }

    pub(crate) fn with_objects(directory: &Path, objects: ObjectStorage) -> Self {
        let store = Arc::new(SqliteStore::open(&directory.join("store")).unwrap());
        let output = Arc::new(OutputDirectory::new(directory.join("logs")));
        let logs = Logs::new(store.clone(), output, &directory.join("moved"), objects);
        let policy = Policy { max_concurrent: 16, ..Policy::default() };
        let driver = StoreFixture { store, now: NOON, node: NODE, policy };
        Self { driver, logs, directory: directory.to_owned(), writers: BTreeMap::new(), _own: None }
    }

    pub(crate) fn outputs(&self) -> PathBuf {
        self.directory.join("logs").join(ID.to_string())
    }

    /// Starts an execution, which has written nothing yet.
    pub(crate) async fn start(&mut self, execution: u128) {
        self.request_execution(execution).await;
        self.record_start(execution).await;
    }

    /// Requests an execution without recording its start.
    pub(crate) async fn request_execution(&mut self, execution: u128) {
        self.driver.execute(SANDBOX, execution).await;
        self.begin_output(execution, RingSize::DEFAULT);
    }

    pub(crate) fn begin_output(&mut self, execution: u128, ring: RingSize) {
        let directory = File::open(self.outputs()).unwrap().into();
        let writer =
            LogWriter::begin(directory, &ExecutionId(execution).to_string(), ring, LogPosition::default())
                .unwrap();
        self.writers.insert(execution, writer);
    }

    pub(crate) async fn record_start(&self, execution: u128) {
        let fence = self.fence(execution).await;
        let execution = ExecutionId(execution);
        self.driver.step(SANDBOX, Event::ExecutionStarted { fence, execution }).await;
    }

    pub(crate) fn write(&mut self, execution: u128, bytes: impl AsRef<[u8]>) {
        self.write_to(execution, OutputStream::Stdout, bytes);
    }

    /// Each write is dated a millisecond after the one before.
    pub(crate) fn write_to(&mut self, execution: u128, stream: OutputStream, bytes: impl AsRef<[u8]>) {
        self.driver.advance_ms(1);
        let writer = self.writers.get_mut(&execution).unwrap();
        writer.append(stream, self.driver.now.0, bytes.as_ref()).unwrap();
    }

    pub(crate) async fn finish(&self, execution: u128) {
        let fence = self.fence(execution).await;
        let (execution, outcome) = (ExecutionId(execution), Outcome::exited(0));
        self.driver.step(SANDBOX, Event::ExecutionEnded { fence, execution, outcome }).await;
    }

    /// Ends the sandbox and proves it gone.
    pub(crate) async fn end(&self) {
        self.driver.end(SANDBOX).await;
    }

    async fn fence(&self, execution: u128) -> Fence {
        let sandbox = self.driver.sandbox(SANDBOX).await;
        let execution = sandbox.executions.iter().find(|known| known.id.0 == execution).unwrap();
        match &execution.state {
            ExecutionState::Starting { pending } => pending.fence,
            ExecutionState::Running { watch, .. } => watch.fence,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn read_all(&self) -> Vec<LogEntry> {
        self.read_after(&Cursor::default()).await
    }

    pub(crate) async fn read_after(&self, after: &Cursor) -> Vec<LogEntry> {
        self.logs.read(ID, after, all()).await.unwrap().entries
    }
}

pub(crate) fn text(entry: &LogEntry) -> String {
    entry.text().unwrap()
}

/// The output of an execution in these entries.
pub(crate) fn written(entries: &[LogEntry], execution: u128) -> String {
    let own = entries
        .iter()
        .filter(|entry| entry.execution == Some(ExecutionId(execution)) && entry.source != Source::Control);
    own.map(text).collect()
}

/// Entries without their cursors, which differ from reader to reader.
pub(crate) fn without_positions(
    entries: &[LogEntry],
) -> Vec<(Timestamp, Source, Option<ExecutionId>, EntryContent)> {
    entries.iter().map(|it| (it.at, it.source, it.execution, it.content.clone())).collect()
}
