//! The connection that writes. A batch of requests becomes one transaction, each request in a savepoint of its own, and
//! one fsync makes all of them durable. Synchronous: `writer.rs` has the threads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

use crate::commit_recovery::{self, CommitFate};
use crate::condition::Condition;
use crate::connect::{self, LockTimeout};
use crate::errors::{TransactionError, WriteError};
use crate::migrate::schema_version;
use crate::requests::{WriteDone, WriteRequest};
use crate::reserve::Reserve;
use crate::totals::TotalsRow;
use crate::wal_file;
use pinfold_store::StoreError;

/// Requests between two checkpoints: some thousand pages of WAL.
const CHECKPOINT_AFTER: usize = 500;
/// Commits after which the WAL is extended ahead of need: a process that commits so often goes on.
const GROW_LOG_AFTER: u64 = 16;

pub(crate) struct WriteConnection {
    connection: Connection,
    /// None: in memory.
    path: Option<PathBuf>,
    /// The id of our row in `writers`.
    writer: i64,
    lock_timeout: LockTimeout,
    batch: i64,
    schema: i64,
    outcome_unknown: bool,
    since_checkpoint: usize,
    wal_is_grown: bool,
    counts: WriteCounts,
    /// None: no other process uses the files.
    condition: Option<Arc<Condition>>,
}

/// Numbers for benchmarks and operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteCounts {
    /// Committed transactions, of one fsync each.
    pub commits: u64,
    /// Requests in these transactions.
    pub requests: u64,
    /// Checkpoints of the WAL, of two fsyncs each.
    pub checkpoints: u64,
}

pub(crate) type WriteAnswer = Result<WriteDone, WriteError>;

impl WriteConnection {
    pub(crate) fn over(
        connection: Connection,
        path: Option<&Path>,
        writer: i64,
        lock_timeout: LockTimeout,
        condition: Option<Arc<Condition>>,
    ) -> rusqlite::Result<Self> {
        let schema = schema_version(&connection)?;
        Ok(Self {
            connection,
            path: path.map(Path::to_path_buf),
            writer,
            lock_timeout,
            batch: 0,
            schema,
            outcome_unknown: false,
            since_checkpoint: 0,
            wal_is_grown: false,
            counts: WriteCounts::default(),
            condition,
        })
    }

    pub(crate) fn counts(&self) -> WriteCounts {
        self.counts
    }

    /// Whether the outcome of the last commit is still unknown.
    pub(crate) fn is_outcome_unknown(&self) -> bool {
        self.outcome_unknown
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Runs the requests in one transaction and answers each, in order. An `Ok` is durable.
    pub(crate) fn write(&mut self, requests: &[WriteRequest]) -> Vec<WriteAnswer> {
        let commits = self.counts.commits;
        let mut outcome = self.write_once(requests);
        if matches!(outcome, Err(TransactionError::DiskFull(_))) && self.release_reserve() {
            outcome = self.write_once(requests);
        }
        if let Some(condition) = &self.condition {
            outcome = outcome.map_err(|failure| condition.explain(failure));
        }
        self.report(outcome.as_ref().err(), commits);
        outcome.unwrap_or_else(|failure| refuse(requests, &failure))
    }

    fn write_once(&mut self, requests: &[WriteRequest]) -> Result<Vec<WriteAnswer>, TransactionError> {
        self.check_files()?;
        self.resolve_unknown().map_err(TransactionError::not_begun)?;
        self.begin()?;
        self.transaction(requests)
    }

    /// A batch of which every request was refused wrote nothing, and shows nothing of the disk.
    fn report(&self, failure: Option<&TransactionError>, commits_before: u64) {
        if let Some(condition) = &self.condition
            && (failure.is_some() || self.counts.commits > commits_before)
        {
            condition.wrote(failure);
        }
    }

    fn check_files(&self) -> Result<(), TransactionError> {
        self.condition.as_ref().map_or(Ok(()), |condition| condition.check())
    }

    fn release_reserve(&self) -> bool {
        self.condition.as_ref().and_then(|condition| condition.reserve.as_ref()).is_some_and(Reserve::release)
    }

    /// Does the same, but without waiting for the lock of another process or for a disk that failed. None: it would have
    /// to wait.
    pub(crate) fn try_write(&mut self, requests: &[WriteRequest]) -> Option<Vec<WriteAnswer>> {
        if self.outcome_unknown || self.check_files().is_err() || !self.try_begin() {
            return None;
        }
        let commits = self.counts.commits;
        match self.transaction(requests) {
            // `write` knows what to do about a full or failing disk.
            Err(TransactionError::DiskFull(_) | TransactionError::Unwritable(_)) => None,
            outcome => {
                self.report(outcome.as_ref().err(), commits);
                Some(outcome.unwrap_or_else(|failure| refuse(requests, &failure)))
            }
        }
    }

    fn try_begin(&mut self) -> bool {
        let begun = connect::set_lock_timeout(&mut self.connection, LockTimeout(0))
            .and_then(|()| self.execute("BEGIN IMMEDIATE"));
        // If this fails, later writes only give up sooner.
        let _ = connect::set_lock_timeout(&mut self.connection, self.lock_timeout);
        begun.is_ok()
    }

    /// Whether a checkpoint or an extension of the WAL is due, which the writer does while it is idle.
    pub(crate) fn has_maintenance(&self) -> bool {
        self.path.is_some() && (self.is_checkpoint_due() || self.is_growth_due())
    }

    pub(crate) fn run_maintenance(&mut self) {
        if self.is_growth_due()
            && !self.is_disk_full()
            && let Some(path) = &self.path
        {
            self.wal_is_grown = true;
            // If this fails, commits are only slower.
            let _ = wal_file::grow(path);
        }
        self.checkpoint_if_due();
    }

    fn is_checkpoint_due(&self) -> bool {
        self.since_checkpoint >= CHECKPOINT_AFTER
    }

    fn is_growth_due(&self) -> bool {
        !self.wal_is_grown && self.counts.commits >= GROW_LOG_AFTER
    }

    /// Checkpoints when enough was written since the last time.
    fn checkpoint_if_due(&mut self) {
        if self.is_checkpoint_due() && self.path.is_some() {
            self.since_checkpoint = 0;
            // A failed checkpoint is tried again later: the WAL has all data.
            if commit_recovery::checkpoint(&self.connection).is_ok() {
                self.counts.checkpoints += 1;
            }
        }
    }

    /// Removes the row of this writer.
    pub(crate) fn close(self) {
        // If this fails, a later writer deletes the row.
        let _ = commit_recovery::remove_writer(&self.connection, self.writer);
    }

    /// Runs and commits a transaction that has begun.
    fn transaction(&mut self, requests: &[WriteRequest]) -> Result<Vec<WriteAnswer>, TransactionError> {
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
            Err(failure @ TransactionError::OutcomeUnknown(_)) => self.resolve_commit(failure)?,
            Err(clear) => {
                self.roll_back();
                return Err(clear);
            }
        }
        if let Some(condition) = &self.condition {
            condition.check_committed()?;
        }
        self.counts.commits += 1;
        self.counts.requests += requests.len() as u64;
        self.since_checkpoint += requests.len();
        Ok(answers)
    }

    fn begin(&self) -> Result<(), TransactionError> {
        let begin =
            || self.execute("BEGIN IMMEDIATE").map_err(|error| TransactionError::of("begin to write", error));
        let Some(condition) = &self.condition else { return begin() };
        condition.begins_to_wait();
        let begun = begin().map_err(|failure| failure.with_holder(|| condition.lock_holder()));
        condition.waited();
        begun
    }

    fn is_disk_full(&self) -> bool {
        self.condition.as_ref().is_some_and(|condition| condition.is_reserve_in_use())
    }

    fn run(&mut self, requests: &[WriteRequest]) -> Result<Vec<WriteAnswer>, TransactionError> {
        let failed = |error| TransactionError::of("write", error);
        if schema_version(&self.connection).map_err(failed)? != self.schema {
            return Err(TransactionError::newer_schema());
        }
        self.run_each(requests).map_err(failed)
    }

    fn run_each(&mut self, requests: &[WriteRequest]) -> rusqlite::Result<Vec<WriteAnswer>> {
        let read = TotalsRow::read(&self.connection)?;
        let mut totals = read;
        let mut answers = Vec::with_capacity(requests.len());
        let is_disk_full = self.is_disk_full();
        for request in requests {
            answers.push(if is_disk_full && request.adds() {
                let source = "the space that is left is for ending what is there".into();
                Err(WriteError::Store(StoreError::DiskFull { source }))
            } else {
                self.run_one(request, &mut totals)?
            });
        }
        if totals != read {
            totals.write(&self.connection)?;
        }
        self.batch += 1;
        commit_recovery::record_batch(&self.connection, self.writer, self.batch, totals.seq)?;
        Ok(answers)
    }

    /// A refused request is rolled back alone. An error of SQLite fails the whole batch.
    fn run_one(&self, request: &WriteRequest, totals: &mut TotalsRow) -> rusqlite::Result<WriteAnswer> {
        let kept = *totals;
        self.execute("SAVEPOINT request")?;
        match request.run(&self.connection, totals) {
            Ok(wrote) => {
                self.execute("RELEASE request")?;
                Ok(Ok(wrote))
            }
            Err(WriteError::Sqlite(error)) => Err(error),
            Err(refused @ (WriteError::Refused(_) | WriteError::Store(_))) => {
                *totals = kept;
                self.execute("ROLLBACK TO request")?;
                self.execute("RELEASE request")?;
                Ok(Err(refused))
            }
        }
    }

    fn commit(&self) -> Result<(), TransactionError> {
        self.execute("COMMIT").map_err(TransactionError::of_commit)
    }

    fn roll_back(&self) {
        // After some errors SQLite has rolled back by itself.
        if !self.connection.is_autocommit() {
            // A transaction that cannot be rolled back is not committed either; the next BEGIN fails.
            let _ = self.execute("ROLLBACK");
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// The disk failed during a commit: reads from the database whether it was written.
    fn resolve_commit(&mut self, failure: TransactionError) -> Result<(), TransactionError> {
        self.outcome_unknown = true;
        match self.reopen_and_check() {
            Ok(CommitFate::Written) => Ok(()),
            Ok(CommitFate::NotWritten) => Err(failure.not_written()),
            Ok(CommitFate::Unknown) | Err(_) => Err(failure),
        }
    }

    /// The outcome of an earlier commit is still unknown: nothing is written before the disk answers again.
    fn resolve_unknown(&mut self) -> Result<(), TransactionError> {
        if self.outcome_unknown {
            self.reopen_and_check()?;
        }
        Ok(())
    }

    fn reopen_and_check(&mut self) -> Result<CommitFate, TransactionError> {
        let Some(path) = &self.path else {
            return Ok(CommitFate::Unknown);
        };
        self.connection = connect::for_writing(path, self.lock_timeout)
            .map_err(|error| TransactionError::of("reopen", error))?;
        self.begin()?;
        let found = commit_recovery::last_batch(&self.connection, self.writer)
            .and_then(|found| {
                commit_recovery::record_batch(&self.connection, self.writer, self.batch + 1, found.seq)
                    .map(|()| found)
            })
            .map_err(|error| TransactionError::of("read again", error));
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
        let settled = commit_recovery::commit_fate(&self.connection, found.batch, self.batch);
        self.batch += 1;
        self.outcome_unknown = false;
        Ok(settled)
    }
}

fn refuse(requests: &[WriteRequest], failure: &TransactionError) -> Vec<WriteAnswer> {
    requests.iter().map(|_| Err(WriteError::Store(StoreError::from(failure.clone())))).collect()
}
