//! Who writes. Whoever comes alone writes on its own thread, since to wake another costs more than the commit does.
//! Where several come at once, one thread takes all requests that have come in, makes one transaction of them, and
//! answers when it is durable; those that come meanwhile wait for the next one. The busier it is, the more share a sync.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, mpsc};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::connect::Patience;
use super::db::{Answer, Counts, Db};
use super::failure::WriteError;
use super::open;
use super::write::{Write, Wrote};
use crate::{OpenError, StoreError};

/// So that the first of many does not wait for all of them.
const LARGEST_BATCH: usize = 256;
/// After a crowd so many requests go to the writing thread before somebody tries again to write by himself.
const CROWD: usize = 32;

struct Asked {
    write: Write,
    answer: oneshot::Sender<Answer>,
}

/// Where the store was found, and which one it is.
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) instance: u128,
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    changed: Condvar,
    /// None: not open yet, or closed. Locked after the inbox where both are.
    db: Mutex<Option<Db>>,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Inbox {
    asked: VecDeque<Asked>,
    crowd: usize,
    has_chores: bool,
    closing: bool,
}

impl Writer {
    /// The store is opened on the thread that will close it, so that a slow disk holds up nobody but who asked.
    pub(super) fn start(directory: &Path, patience: Patience) -> Result<(Self, Place), OpenError> {
        let shared = Arc::new(Shared::default());
        let (opened, outcome) = mpsc::sync_channel(1);
        let directory = directory.to_path_buf();
        let failed = |source| OpenError::Failed { path: directory.clone(), source };
        let (place, serving) = (directory.clone(), shared.clone());
        let thread = thread::Builder::new()
            .name("pinfold-store".into())
            .spawn(move || match open(&place, patience) {
                Ok((db, place)) => {
                    *lock(&serving.db) = Some(db);
                    // Whoever asked waits for it right here.
                    let _ = opened.send(Ok(place));
                    serving.serve();
                }
                Err(error) => drop(opened.send(Err(error))),
            })
            .map_err(|error| failed(Box::new(error)))?;
        let writer = Self { shared, thread: Some(thread) };
        let place = outcome.recv().map_err(|error| failed(Box::new(error)))??;
        Ok((writer, place))
    }

    /// A request that was handed over is carried out, also if nobody waits for its answer any more.
    pub(super) async fn write(&self, write: Write) -> Result<Wrote, WriteError> {
        let closed = || WriteError::Store(StoreError::Closed);
        let write = match self.shared.write_here(write) {
            Ok(answer) => return answer,
            Err(write) => write,
        };
        let (answer, answered) = oneshot::channel();
        self.shared.hand_over(Asked { write, answer });
        answered.await.map_err(|_| closed())?
    }

    /// On the connection that writes, whose pages are in memory still, if nobody else wants it. The question comes back
    /// if somebody does.
    pub(super) fn read_if_free<T, Q: FnOnce(&Connection) -> T>(&self, question: Q) -> Result<T, Q> {
        let db = self.shared.alone();
        match db.as_ref().and_then(|db| db.as_ref()) {
            Some(open) if !open.is_unsettled() => Ok(question(open.connection())),
            _ => Err(question),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        *lock(&self.shared.counts)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        lock(&self.shared.inbox).closing = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It ends when it has answered what it took; if it panicked, its callers have been told.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// On the caller's own thread, if nobody else writes or wants to. The request comes back if it has to wait.
    fn write_here(&self, write: Write) -> Result<Answer, Write> {
        let Some(mut db) = self.alone() else { return Err(write) };
        let Some(open) = db.as_mut() else { return Err(write) };
        let requests = [write];
        let Some(mut answers) = open.write_at_once(&requests) else {
            let [write] = requests;
            return Err(write);
        };
        *lock(&self.counts) = open.counts();
        let has_chores = open.has_chores();
        drop(db);
        if has_chores {
            lock(&self.inbox).has_chores = true;
            self.changed.notify_one();
        }
        Ok(answers.pop().unwrap_or(Err(WriteError::Store(StoreError::Closed))))
    }

    /// The database, if nobody else has it or waits for it.
    fn alone(&self) -> Option<MutexGuard<'_, Option<Db>>> {
        let inbox = lock(&self.inbox);
        if inbox.closing || inbox.crowd > 0 || !inbox.asked.is_empty() {
            return None;
        }
        match self.db.try_lock() {
            Ok(db) => Some(db),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn hand_over(&self, asked: Asked) {
        let mut inbox = lock(&self.inbox);
        if !inbox.closing {
            inbox.crowd = inbox.crowd.max(1);
            inbox.asked.push_back(asked);
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
                // Who does not wait any more finds the outcome in the store.
                let _ = answer.send(outcome);
            }
            open.do_chores();
        }
        if let Some(db) = lock(&self.db).take() {
            db.close();
        }
    }

    /// Waits for something to do. None: closing, and all is done.
    fn next_batch(&self) -> Option<(Vec<Write>, Vec<oneshot::Sender<Answer>>)> {
        let mut inbox = lock(&self.inbox);
        while inbox.asked.is_empty() && !inbox.has_chores {
            if inbox.closing {
                return None;
            }
            inbox = self.changed.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
        inbox.has_chores = false;
        let count = inbox.asked.len().min(LARGEST_BATCH);
        inbox.crowd = if count > 1 { CROWD } else { inbox.crowd.saturating_sub(1) };
        Some(inbox.asked.drain(..count).map(|asked| (asked.write, asked.answer)).unzip())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(directory: &Path, patience: Patience) -> Result<(Db, Place), OpenError> {
    let opened = open::open(directory, patience)?;
    let failed = |error| OpenError::Failed { path: directory.to_path_buf(), source: Box::new(error) };
    let db = Db::over(opened.connection, Some(&opened.path), opened.writer, patience).map_err(failed)?;
    let place = Place { path: opened.path, instance: opened.instance };
    Ok((db, place))
}
