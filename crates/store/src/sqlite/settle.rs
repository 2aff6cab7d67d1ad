//! After a failed sync: was the transaction written or not? Every transaction carries the number of its writer's
//! batch in a row of its own, so one look at that row answers for all requests that were in it.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

/// So many writers are remembered. One whose row is gone cannot tell any more, and says so.
const WRITERS_KEPT: i64 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    Written,
    NotWritten,
    Unknown,
}

pub(super) struct Signature {
    /// None: this writer has no row.
    pub(super) batch: Option<i64>,
    pub(super) seq: i64,
}

/// Part of every transaction.
pub(super) fn sign(connection: &Connection, writer: i64, batch: i64, seq: i64) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO writers (id, batch, seq) VALUES (?1, ?2, ?3)
         ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, seq = excluded.seq",
    )?;
    statement.execute((writer, batch, seq)).map(drop)
}

/// A new writer's first batch, the empty one. Those that have long been gone are forgotten.
pub(super) fn enter(connection: &mut Connection) -> rusqlite::Result<i64> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute(
        "DELETE FROM writers WHERE id NOT IN (SELECT id FROM writers ORDER BY seq DESC LIMIT ?1)",
        [WRITERS_KEPT],
    )?;
    let writer = transaction.query_row(
        "INSERT INTO writers (id, batch, seq) SELECT random(), 0, seq FROM ledger RETURNING id",
        [],
        |row| row.get(0),
    )?;
    transaction.commit()?;
    Ok(writer)
}

pub(super) fn leave(connection: &Connection, writer: i64) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM writers WHERE id = ?1", [writer]).map(drop)
}

pub(super) fn last_signed(connection: &Connection, writer: i64) -> rusqlite::Result<Signature> {
    let found: Option<(i64, i64)> = connection
        .query_row("SELECT batch, seq FROM writers WHERE id = ?1", [writer], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    Ok(Signature { batch: found.map(|(batch, _)| batch), seq: found.map_or(0, |(_, seq)| seq) })
}

/// To be asked when a fresh commit has succeeded, so that what was found is durable. One thing is not, yet: pages
/// of the log whose sync has failed may be clean in memory and missing on the disk, and no later sync writes them
/// again. Where the transaction is there, it has to be copied from the log into the database first.
pub(super) fn judge(connection: &Connection, found: Option<i64>, failed: i64) -> Settled {
    match found {
        Some(found) if found < failed => Settled::NotWritten,
        Some(_) => match checkpoint(connection) {
            Ok(Checkpoint::Complete) => Settled::Written,
            Ok(Checkpoint::Partial) | Err(_) => Settled::Unknown,
        },
        None => Settled::Unknown,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checkpoint {
    Complete,
    /// Somebody reads or copies at the same time.
    Partial,
}

pub(super) fn checkpoint(connection: &Connection) -> rusqlite::Result<Checkpoint> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        let (busy, log, copied): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(if busy == 0 && log == copied { Checkpoint::Complete } else { Checkpoint::Partial })
    })
}
