//! One connection that writes: many requests become one transaction, each in a savepoint of its own, and all of
//! them are answered by one sync to disk. Synchronous; the threads are elsewhere.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::connect::{self, Patience};
use super::failure::{Failure, WriteError};
use super::ledger::Ledger;
use super::log;
use super::migrate::schema_version;
use super::settle::{self, Settled};
use super::write::{Write, Wrote};
use crate::StoreError;

/// Transitions until the log is copied into the database: some thousand pages.
const CHECKPOINT_AFTER: usize = 500;
/// Who has committed so often goes on, and is worth a log that need not grow.
const GROW_LOG_AFTER: u64 = 16;

pub(super) struct Db {
    connection: Connection,
    /// None: in memory.
    path: Option<PathBuf>,
    /// Which of the rows in `writers` is ours.
    writer: i64,
    patience: Patience,
    batch: i64,
    schema: i64,
    unsettled: bool,
    since_checkpoint: usize,
    log_is_grown: bool,
    counts: Counts,
}

/// What the disk was asked to do, for benchmarks and operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Transactions that were committed. Each is one sync.
    pub commits: u64,
    /// Requests that were answered by them.
    pub requests: u64,
    /// Copies of the log into the database. Each is two syncs.
    pub checkpoints: u64,
}

pub(super) type Answer = Result<Wrote, WriteError>;

impl Db {
    pub(super) fn over(
        connection: Connection,
        path: Option<&Path>,
        writer: i64,
        patience: Patience,
    ) -> rusqlite::Result<Self> {
        let schema = schema_version(&connection)?;
        Ok(Self {
            connection,
            path: path.map(Path::to_path_buf),
            writer,
            patience,
            batch: 0,
            schema,
            unsettled: false,
            since_checkpoint: 0,
            log_is_grown: false,
            counts: Counts::default(),
        })
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether nobody knows yet what the last commit came to.
    pub(super) fn is_unsettled(&self) -> bool {
        self.unsettled
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Answers every request, in their order. An `Ok` is durable.
    pub(super) fn write(&mut self, requests: &[Write]) -> Vec<Answer> {
        let begun = self.settle_what_is_open().and_then(|()| self.begin());
        let outcome = begun.and_then(|()| self.transaction(requests));
        outcome.unwrap_or_else(|failure| refuse(requests, &failure))
    }

    /// The same, but without waiting for another process that writes, or for a disk that failed. None: it would have to.
    pub(super) fn write_at_once(&mut self, requests: &[Write]) -> Option<Vec<Answer>> {
        if self.unsettled || !self.begins_at_once() {
            return None;
        }
        let outcome = self.transaction(requests);
        Some(outcome.unwrap_or_else(|failure| refuse(requests, &failure)))
    }

    fn begins_at_once(&mut self) -> bool {
        let begun = connect::be_patient(&mut self.connection, Patience(0))
            .and_then(|()| self.execute("BEGIN IMMEDIATE"));
        // Without its patience it would only give up sooner.
        let _ = connect::be_patient(&mut self.connection, self.patience);
        begun.is_ok()
    }

    /// Whether something is to be done when nobody waits for an answer.
    pub(super) fn has_chores(&self) -> bool {
        self.path.is_some() && (self.is_checkpoint_due() || self.is_growth_due())
    }

    pub(super) fn do_chores(&mut self) {
        if self.is_growth_due()
            && let Some(path) = &self.path
        {
            self.log_is_grown = true;
            // Without it commits are only slower.
            let _ = log::grow(path);
        }
        self.checkpoint_if_due();
    }

    fn is_checkpoint_due(&self) -> bool {
        self.since_checkpoint >= CHECKPOINT_AFTER
    }

    fn is_growth_due(&self) -> bool {
        !self.log_is_grown && self.counts.commits >= GROW_LOG_AFTER
    }

    /// Copies the log into the database when it has grown.
    fn checkpoint_if_due(&mut self) {
        if self.is_checkpoint_due() && self.path.is_some() {
            self.since_checkpoint = 0;
            // A checkpoint that comes to nothing is tried again: the log has it all.
            if settle::checkpoint(&self.connection).is_ok() {
                self.counts.checkpoints += 1;
            }
        }
    }

    /// Leaves nothing behind that only a writer needs.
    pub(super) fn close(self) {
        // A row too many is forgotten later, by others.
        let _ = settle::leave(&self.connection, self.writer);
    }

    /// From the moment that it has begun.
    fn transaction(&mut self, requests: &[Write]) -> Result<Vec<Answer>, Failure> {
        let answers = match self.run(requests) {
            Ok(answers) => answers,
            Err(failure) => {
                self.roll_back();
                return Err(failure);
            }
        };
        if answers.iter().all(Result::is_err) {
            self.roll_back();
            return Ok(answers);
        }
        match self.commit() {
            Ok(()) => {}
            Err(failure @ Failure::Unclear(_)) => self.settle(failure)?,
            Err(clear) => {
                self.roll_back();
                return Err(clear);
            }
        }
        self.counts.commits += 1;
        self.counts.requests += requests.len() as u64;
        self.since_checkpoint += requests.len();
        Ok(answers)
    }

    fn begin(&self) -> Result<(), Failure> {
        self.execute("BEGIN IMMEDIATE").map_err(|error| Failure::of("begin to write", error))
    }

    fn run(&mut self, requests: &[Write]) -> Result<Vec<Answer>, Failure> {
        let failed = |error| Failure::of("write", error);
        if schema_version(&self.connection).map_err(failed)? != self.schema {
            return Err(Failure::schema_moved());
        }
        self.run_each(requests).map_err(failed)
    }

    fn run_each(&mut self, requests: &[Write]) -> rusqlite::Result<Vec<Answer>> {
        let read = Ledger::read(&self.connection)?;
        let mut ledger = read;
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            answers.push(self.run_one(request, &mut ledger)?);
        }
        if ledger != read {
            ledger.write(&self.connection)?;
        }
        self.batch += 1;
        settle::sign(&self.connection, self.writer, self.batch, ledger.seq)?;
        Ok(answers)
    }

    /// A request that is refused is undone alone; one that SQLite fails takes the others with it.
    fn run_one(&self, request: &Write, ledger: &mut Ledger) -> rusqlite::Result<Answer> {
        let kept = *ledger;
        self.execute("SAVEPOINT request")?;
        match request.run(&self.connection, ledger) {
            Ok(wrote) => {
                self.execute("RELEASE request")?;
                Ok(Ok(wrote))
            }
            Err(WriteError::Sqlite(error)) => Err(error),
            Err(refused @ (WriteError::Refused(_) | WriteError::Store(_))) => {
                *ledger = kept;
                self.execute("ROLLBACK TO request")?;
                self.execute("RELEASE request")?;
                Ok(Err(refused))
            }
        }
    }

    fn commit(&self) -> Result<(), Failure> {
        self.execute("COMMIT").map_err(Failure::of_commit)
    }

    fn roll_back(&self) {
        // After some failures SQLite has rolled back by itself already.
        if !self.connection.is_autocommit() {
            // What cannot be rolled back is not committed either; the next BEGIN will say so.
            let _ = self.execute("ROLLBACK");
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// The disk failed while a commit was made durable. What holds is read again, never guessed.
    fn settle(&mut self, failure: Failure) -> Result<(), Failure> {
        self.unsettled = true;
        match self.look_again() {
            Ok(Settled::Written) => Ok(()),
            Ok(Settled::NotWritten) => Err(failure.not_written()),
            Ok(Settled::Unknown) | Err(_) => Err(failure),
        }
    }

    /// An earlier commit is still unclear: nothing is written before the disk answers again.
    fn settle_what_is_open(&mut self) -> Result<(), Failure> {
        if self.unsettled {
            self.look_again()?;
        }
        Ok(())
    }

    fn look_again(&mut self) -> Result<Settled, Failure> {
        let Some(path) = &self.path else {
            return Ok(Settled::Unknown);
        };
        self.connection =
            connect::for_writing(path, self.patience).map_err(|error| Failure::of("reopen", error))?;
        self.begin()?;
        let found = settle::last_signed(&self.connection, self.writer)
            .and_then(|found| {
                settle::sign(&self.connection, self.writer, self.batch + 1, found.seq).map(|()| found)
            })
            .map_err(|error| Failure::of("read again", error));
        let found = match found {
            Ok(found) => found,
            Err(failure) => {
                self.roll_back();
                return Err(failure);
            }
        };
        if let Err(failure) = self.commit() {
            self.roll_back();
            return Err(failure);
        }
        let settled = settle::judge(&self.connection, found.batch, self.batch);
        self.batch += 1;
        self.unsettled = false;
        Ok(settled)
    }
}

fn refuse(requests: &[Write], failure: &Failure) -> Vec<Answer> {
    requests.iter().map(|_| Err(WriteError::Store(StoreError::from(failure.clone())))).collect()
}
