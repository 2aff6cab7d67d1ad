//! The thread that writes. It takes all requests that have come in, makes one transaction of them, and answers
//! when it is durable; those that come meanwhile wait for the next one. The busier it is, the more share a sync.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

use super::db::{Answer, Counts, Db};
use super::failure::WriteError;
use super::write::{Write, Wrote};
use crate::StoreError;

/// So that the first of many does not wait for all of them.
const LARGEST_BATCH: usize = 256;

struct Asked {
    write: Write,
    answer: oneshot::Sender<Answer>,
}

pub(super) struct Writer {
    /// None: closing.
    asked: Option<Sender<Asked>>,
    counts: Arc<Mutex<Counts>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(db: Db) -> io::Result<Self> {
        let (asked, inbox) = mpsc::channel();
        let counts = Arc::new(Mutex::new(Counts::default()));
        let shown = Arc::clone(&counts);
        let thread = thread::Builder::new()
            .name("pinfold-store".into())
            .spawn(move || serve(db, &inbox, &shown))?;
        Ok(Self {
            asked: Some(asked),
            counts,
            thread: Some(thread),
        })
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
