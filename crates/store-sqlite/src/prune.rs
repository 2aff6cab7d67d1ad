//! Deletes rows that are past retention. A sandbox is deleted only if its state, parsed here, says that it is settled.

use pinfold_lifecycle::{Demand, Sandbox, Timestamp};
use rusqlite::{Connection, Row};

use crate::errors::WriteError;
use crate::json;
use crate::totals::{SandboxShare, TotalsRow, signed};
use crate::{alerts, audit_log, queue};
use pinfold_store::{Pruned, Retention};

/// Rows of each other kind that one transaction deletes, so that other writers do not wait for long.
const ROWS_PER_TRANSACTION: usize = 10_000;
const SETTLED_BEFORE: &str = "SELECT id, state FROM sandboxes WHERE settled_at < ?1 ORDER BY settled_at, id";

pub(crate) fn run(
    connection: &Connection,
    totals: &mut TotalsRow,
    retention: Retention,
    limit: usize,
) -> Result<Pruned, WriteError> {
    let row_limit = signed(ROWS_PER_TRANSACTION as u64);
    let settled = settled_before(connection, retention.records_before, limit)?;
    for (id, sandbox) in &settled {
        totals.row_deleted(SandboxShare::of(sandbox, Demand::default()));
        connection.prepare_cached("DELETE FROM sandboxes WHERE id = ?1")?.execute([id])?;
    }
    let history = connection
        .prepare_cached(
            "DELETE FROM history WHERE seq IN (SELECT seq FROM history WHERE at < ?1 ORDER BY at LIMIT ?2)",
        )?
        .execute((retention.history_before.0, row_limit))?;
    let keys = connection
        .prepare_cached(
            "DELETE FROM idempotency_keys WHERE key IN
             (SELECT key FROM idempotency_keys WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)",
        )?
        .execute((retention.now.0, row_limit))?;
    let queue_entries = queue::prune(connection, retention.records_before, row_limit)?;
    let audit_records = audit_log::prune(connection, retention.history_before, row_limit)?;
    let alerts = alerts::prune(connection, retention.history_before, row_limit)?;
    let is_full = |deleted: usize| deleted >= ROWS_PER_TRANSACTION;
    let more = settled.len() == limit
        || [history, keys, queue_entries, audit_records, alerts].into_iter().any(is_full);
    Ok(Pruned { sandboxes: settled.len(), more })
}

pub(crate) fn prunable(connection: &Connection, before: Timestamp) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached(SETTLED_BEFORE)?;
    let mut rows = statement.query([before.0])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += u64::from(settled(row).is_some());
    }
    Ok(count)
}

fn settled_before(
    connection: &Connection,
    before: Timestamp,
    limit: usize,
) -> rusqlite::Result<Vec<(String, Sandbox)>> {
    let mut statement = connection.prepare_cached(SETTLED_BEFORE)?;
    let mut rows = statement.query([before.0])?;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        if let Some(sandbox) = settled(row) {
            found.push((row.get(0)?, sandbox));
        }
    }
    Ok(found)
}

/// None for a state that cannot be parsed: it is not deleted, whatever its columns say.
fn settled(row: &Row<'_>) -> Option<Sandbox> {
    json::read::<Sandbox>(row, 1).ok().filter(Sandbox::is_settled)
}
