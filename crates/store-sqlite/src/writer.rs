//! Decides on which thread a request is written. A request that is alone is written on the thread of its caller, since
//! waking another thread costs more than the commit. When several arrive at once, the writer thread makes one transaction
//! of all that are queued and answers when it is durable; later ones wait for the next. The higher the load, the more
//! requests share one fsync.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, mpsc};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::condition::Condition;
use crate::connect::LockTimeout;
use crate::errors::WriteError;
use crate::file_watch::FileWatch;
use crate::key_file::FoundKey;
use crate::open;
use crate::paths::StorePaths;
use crate::requests::{WriteDone, WriteRequest};
use crate::reserve::Reserve;
use crate::write_connection::{WriteAnswer, WriteConnection, WriteCounts};
use pinfold_store::{OpenError, StoreError};

/// Bounds how long the first request of a batch waits for the others.
const MAX_BATCH: usize = 256;
/// After concurrent requests this many go to the writer thread before a caller tries again to write on its own thread.
const BUSY_REQUESTS: usize = 32;

struct QueuedWrite {
    write: WriteRequest,
    answer: oneshot::Sender<WriteAnswer>,
}

/// What opening a store found out.
pub(crate) struct OpenedStore {
    pub(crate) path: PathBuf,
    pub(crate) store_id: u128,
    pub(crate) key: FoundKey,
    pub(crate) condition: Arc<Condition>,
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    changed: Condvar,
    /// None: not open yet, or closed. Lock order: the inbox first.
    db: Mutex<Option<WriteConnection>>,
    counts: Mutex<WriteCounts>,
}

#[derive(Default)]
struct Inbox {
    queued: VecDeque<QueuedWrite>,
    busy_requests_left: usize,
    has_maintenance: bool,
    closing: bool,
}

impl Writer {
    /// Opens the store on the writer thread, which will also close it.
    pub(crate) fn start(
        paths: &StorePaths,
        lock_timeout: LockTimeout,
    ) -> Result<(Self, OpenedStore), OpenError> {
        let shared = Arc::new(Shared::default());
        let (opened, outcome) = mpsc::sync_channel(1);
        let failed = |source| OpenError::Failed { path: paths.directory.clone(), source };
        let (paths_to_open, serving) = (paths.clone(), shared.clone());
        let thread = thread::Builder::new()
            .name("pinfold-store".into())
            .spawn(move || match open(&paths_to_open, lock_timeout) {
                Ok((db, opened_store)) => {
                    *lock(&serving.db) = Some(db);
                    // The receiver waits below.
                    let _ = opened.send(Ok(opened_store));
                    serving.serve();
                }
                Err(error) => drop(opened.send(Err(error))),
            })
            .map_err(|error| failed(Box::new(error)))?;
        let writer = Self { shared, thread: Some(thread) };
        let opened_store = outcome.recv().map_err(|error| failed(Box::new(error)))??;
        Ok((writer, opened_store))
    }

    /// A request that was queued is carried out even if its caller is gone.
    pub(crate) async fn write(&self, write: WriteRequest) -> Result<WriteDone, WriteError> {
        let closed = || WriteError::Store(StoreError::Closed);
        let write = match self.shared.write_on_this_thread(write) {
            Ok(answer) => return answer,
            Err(write) => write,
        };
        let (answer, answered) = oneshot::channel();
        self.shared.enqueue(QueuedWrite { write, answer });
        answered.await.map_err(|_| closed())?
    }

    /// Reads on the writing connection, which has the pages in its cache. Returns the query if the connection is in use.
    pub(crate) fn read_if_free<T, Q: FnOnce(&Connection) -> T>(&self, query: Q) -> Result<T, Q> {
        let db = self.shared.lock_if_free();
        match db.as_ref().and_then(|db| db.as_ref()) {
            Some(open) if !open.is_outcome_unknown() => Ok(query(open.connection())),
            _ => Err(query),
        }
    }

    pub(crate) fn counts(&self) -> WriteCounts {
        *lock(&self.shared.counts)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        lock(&self.shared.inbox).closing = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It ends when it has answered its batch. If it panicked, its callers got an error.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Writes on the thread of the caller. Returns the request if another one is being written or waits.
    fn write_on_this_thread(&self, write: WriteRequest) -> Result<WriteAnswer, WriteRequest> {
        let Some(mut db) = self.lock_if_free() else { return Err(write) };
        let Some(open) = db.as_mut() else { return Err(write) };
        let requests = [write];
        let Some(mut answers) = open.try_write(&requests) else {
            let [write] = requests;
            return Err(write);
        };
        *lock(&self.counts) = open.counts();
        let has_chores = open.has_maintenance();
        drop(db);
        if has_chores {
            lock(&self.inbox).has_maintenance = true;
            self.changed.notify_one();
        }
        Ok(answers.pop().unwrap_or(Err(WriteError::Store(StoreError::Closed))))
    }

    /// The connection, if no other request uses it or waits for it.
    fn lock_if_free(&self) -> Option<MutexGuard<'_, Option<WriteConnection>>> {
        let inbox = lock(&self.inbox);
        if inbox.closing || inbox.busy_requests_left > 0 || !inbox.queued.is_empty() {
            return None;
        }
        match self.db.try_lock() {
            Ok(db) => Some(db),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn enqueue(&self, queued: QueuedWrite) {
        let mut inbox = lock(&self.inbox);
        if !inbox.closing {
            inbox.busy_requests_left = inbox.busy_requests_left.max(1);
            inbox.queued.push_back(queued);
            self.changed.notify_one();
        }
    }

    fn serve(&self) {
        while let Some((writes, answers)) = self.next_batch() {
            let mut db = lock(&self.db);
            let Some(open) = db.as_mut() else { return };
            let outcomes = if writes.is_empty() { Vec::new() } else { open.write(&writes) };
            *lock(&self.counts) = open.counts();
            for (answer, outcome) in answers.into_iter().zip(outcomes) {
                // A caller that is gone finds the outcome in the store.
                let _ = answer.send(outcome);
            }
            open.run_maintenance();
        }
        if let Some(db) = lock(&self.db).take() {
            db.close();
        }
    }

    /// Waits for requests or maintenance. None: closing, and all requests are answered.
    fn next_batch(&self) -> Option<(Vec<WriteRequest>, Vec<oneshot::Sender<WriteAnswer>>)> {
        let mut inbox = lock(&self.inbox);
        while inbox.queued.is_empty() && !inbox.has_maintenance {
            if inbox.closing {
                return None;
            }
            inbox = self.changed.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
        inbox.has_maintenance = false;
        let count = inbox.queued.len().min(MAX_BATCH);
        inbox.busy_requests_left =
            if count > 1 { BUSY_REQUESTS } else { inbox.busy_requests_left.saturating_sub(1) };
        Some(inbox.queued.drain(..count).map(|queued| (queued.write, queued.answer)).unzip())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(paths: &StorePaths, lock_timeout: LockTimeout) -> Result<(WriteConnection, OpenedStore), OpenError> {
    let opened = open::open(paths, lock_timeout)?;
    let failed = |error| OpenError::Failed { path: paths.directory.clone(), source: Box::new(error) };
    let files = FileWatch::begin(&opened.path)
        .map_err(|error| OpenError::Failed { path: opened.path.clone(), source: Box::new(error) })?;
    let reserve = paths.reserve_file.as_deref().map(Reserve::at);
    let condition = Arc::new(Condition::new(&opened.path, files, reserve));
    let (path, watched) = (Some(opened.path.as_path()), Some(condition.clone()));
    let db = WriteConnection::over(opened.connection, path, opened.writer, lock_timeout, watched)
        .map_err(failed)?;
    let (path, store_id, key) = (opened.path, opened.store_id, opened.key);
    let opened_store = OpenedStore { path, store_id, key, condition };
    Ok((db, opened_store))
}
