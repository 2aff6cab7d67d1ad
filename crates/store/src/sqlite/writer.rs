//! The thread that writes. It takes all requests that have come in, makes one transaction of them, and answers
//! when it is durable; those that come meanwhile wait for the next one. The busier it is, the more share a sync.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

use super::connect::Patience;
use super::db::{Answer, Counts, Db};
use super::failure::WriteError;
use super::open;
use super::write::{Write, Wrote};
use crate::{OpenError, StoreError};

/// So that the first of many does not wait for all of them.
const LARGEST_BATCH: usize = 256;

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
    /// None: closing.
    asked: Option<Sender<Asked>>,
    counts: Arc<Mutex<Counts>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// The store is opened on the thread that will write, so that all its writes are in one place and in one order.
    pub(super) fn start(directory: &Path, patience: Patience) -> Result<(Self, Place), OpenError> {
        let (asked, inbox) = mpsc::channel();
        let (opened, outcome) = mpsc::sync_channel(1);
        let counts = Arc::new(Mutex::new(Counts::default()));
        let (shown, directory) = (Arc::clone(&counts), directory.to_path_buf());
        let failed = |source| OpenError::Failed { path: directory.clone(), source };
        let place = directory.clone();
        let thread = thread::Builder::new()
            .name("pinfold-store".into())
            .spawn(move || match open(&place, patience) {
                Ok((db, place)) => {
                    // Whoever asked waits for it right here.
                    let _ = opened.send(Ok(place));
                    serve(db, &inbox, &shown);
                }
                Err(error) => drop(opened.send(Err(error))),
            })
            .map_err(|error| failed(Box::new(error)))?;
        let writer = Self { asked: Some(asked), counts, thread: Some(thread) };
        let place = outcome.recv().map_err(|error| failed(Box::new(error)))??;
        Ok((writer, place))
    }

    /// A request that was handed over is carried out, also if nobody waits for its answer any more.
    pub(super) async fn write(&self, write: Write) -> Result<Wrote, WriteError> {
        let closed = || WriteError::Store(StoreError::Closed);
        let (answer, answered) = oneshot::channel();
        let asked = self.asked.as_ref().ok_or_else(closed)?;
        asked.send(Asked { write, answer }).map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }

    pub(super) fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.asked = None;
        if let Some(thread) = self.thread.take() {
            // It ends when it has answered what it took; if it panicked, its callers have been told.
            let _ = thread.join();
        }
    }
}

fn open(directory: &Path, patience: Patience) -> Result<(Db, Place), OpenError> {
    let opened = open::open(directory, patience)?;
    let failed = |error| OpenError::Failed { path: directory.to_path_buf(), source: Box::new(error) };
    let db = Db::over(opened.connection, Some(&opened.path), opened.writer, patience).map_err(failed)?;
    let place = Place { path: opened.path, instance: opened.instance };
    Ok((db, place))
}

fn serve(mut db: Db, inbox: &Receiver<Asked>, shown: &Mutex<Counts>) {
    while let Ok(first) = inbox.recv() {
        let (mut writes, mut answers) = (vec![first.write], vec![first.answer]);
        for asked in inbox.try_iter().take(LARGEST_BATCH - 1) {
            writes.push(asked.write);
            answers.push(asked.answer);
        }
        let outcomes = db.write(&writes);
        *shown.lock().unwrap_or_else(PoisonError::into_inner) = db.counts();
        for (answer, outcome) in answers.into_iter().zip(outcomes) {
            // Who does not wait any more finds the outcome in the store.
            let _ = answer.send(outcome);
        }
        db.checkpoint_if_due();
    }
    db.close();
}
