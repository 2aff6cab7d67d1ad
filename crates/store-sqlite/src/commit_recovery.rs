//! After a failed fsync: finds out whether the transaction was written. Every transaction writes its batch number into
//! the row of its writer, so that row answers for all requests of the batch.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

/// Rows of writers that are kept. For a writer whose row is deleted the outcome stays unknown.
const WRITERS_KEPT: i64 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitFate {
    Written,
    NotWritten,
    Unknown,
}

pub(crate) struct LastBatch {
    /// None: the writer has no row.
    pub(crate) batch: Option<i64>,
    pub(crate) seq: i64,
}

/// Writes the batch number, as part of every transaction.
pub(crate) fn record_batch(
    connection: &Connection,
    writer: i64,
    batch: i64,
    seq: i64,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO writers (id, batch, seq) VALUES (?1, ?2, ?3)
         ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, seq = excluded.seq",
    )?;
    statement.execute((writer, batch, seq)).map(drop)
}

/// Adds the row of a new writer, with batch 0, and deletes the oldest rows of other writers.
pub(crate) fn register_writer(connection: &mut Connection) -> rusqlite::Result<i64> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute(
        "DELETE FROM writers WHERE id NOT IN (SELECT id FROM writers ORDER BY seq DESC LIMIT ?1)",
        [WRITERS_KEPT],
    )?;
    let writer = transaction.query_row(
        "INSERT INTO writers (id, batch, seq) SELECT random(), 0, last_seq FROM totals RETURNING id",
        [],
        |row| row.get(0),
    )?;
    transaction.commit()?;
    Ok(writer)
}

pub(crate) fn remove_writer(connection: &Connection, writer: i64) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM writers WHERE id = ?1", [writer]).map(drop)
}

pub(crate) fn last_batch(connection: &Connection, writer: i64) -> rusqlite::Result<LastBatch> {
    let found: Option<(i64, i64)> = connection
        .query_row("SELECT batch, seq FROM writers WHERE id = ?1", [writer], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    Ok(LastBatch { batch: found.map(|(batch, _)| batch), seq: found.map_or(0, |(_, seq)| seq) })
}

/// Decides from the batch number that was `found`. The caller has committed another transaction since, so what it found
/// is durable, with one exception: pages of the WAL whose fsync failed may be clean in the page cache and missing on the
/// disk, and no later fsync writes them again. So a transaction that is there counts as written only after a checkpoint
/// has copied it from the WAL into the database.
pub(crate) fn commit_fate(connection: &Connection, found: Option<i64>, failed: i64) -> CommitFate {
    match found {
        Some(found) if found < failed => CommitFate::NotWritten,
        Some(_) => match checkpoint(connection) {
            Ok(Checkpoint::Complete) => CommitFate::Written,
            Ok(Checkpoint::Partial) | Err(_) => CommitFate::Unknown,
        },
        None => CommitFate::Unknown,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    Complete,
    /// Another connection reads or checkpoints at the same time.
    Partial,
}

pub(crate) fn checkpoint(connection: &Connection) -> rusqlite::Result<Checkpoint> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        let (busy, log, copied): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(if busy == 0 && log == copied { Checkpoint::Complete } else { Checkpoint::Partial })
    })
}
