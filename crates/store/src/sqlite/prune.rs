//! Deletes what is past retention. A sandbox goes only if its state says, read here and now, that it is settled.

use pinfold_lifecycle::{Demand, Sandbox, Timestamp};
use rusqlite::{Connection, Row};

use super::failure::WriteError;
use super::ledger::{Ledger, Share, signed};
use super::text;
use super::{alerts, audit, queue};
use crate::{Pruned, Retention};

/// So many rows of each other kind go in one transaction, that nobody waits long behind it.
const ROWS_AT_ONCE: usize = 10_000;
const SETTLED_BEFORE: &str = "SELECT id, state FROM sandboxes WHERE settled_at < ?1 ORDER BY settled_at, id";

pub(super) fn run(
    connection: &Connection,
    ledger: &mut Ledger,
    retention: Retention,
    limit: usize,
) -> Result<Pruned, WriteError> {
    let at_once = signed(ROWS_AT_ONCE as u64);
    let settled = settled_before(connection, retention.records_before, limit)?;
    for (id, sandbox) in &settled {
        ledger.forget(Share::of(sandbox, Demand::default()));
        connection.prepare_cached("DELETE FROM sandboxes WHERE id = ?1")?.execute([id])?;
    }
    let history = connection
        .prepare_cached(
            "DELETE FROM history WHERE seq IN (SELECT seq FROM history WHERE at < ?1 ORDER BY at LIMIT ?2)",
        )?
        .execute((retention.history_before.0, at_once))?;
    let keys = connection
        .prepare_cached(
            "DELETE FROM idempotency_keys WHERE key IN
             (SELECT key FROM idempotency_keys WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)",
        )?
        .execute((retention.now.0, at_once))?;
    let places = queue::prune(connection, retention.records_before, at_once)?;
    let notes = audit::prune(connection, retention.history_before, at_once)?;
    let alerts = alerts::prune(connection, retention.history_before, at_once)?;
    let is_full = |gone: usize| gone >= ROWS_AT_ONCE;
    let more = settled.len() == limit || [history, keys, places, notes, alerts].into_iter().any(is_full);
    Ok(Pruned { sandboxes: settled.len(), more })
}

pub(super) fn prunable(connection: &Connection, before: Timestamp) -> rusqlite::Result<u64> {
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

/// What cannot be read is not deleted, whatever its columns say.
fn settled(row: &Row<'_>) -> Option<Sandbox> {
    text::read::<Sandbox>(row, 1).ok().filter(Sandbox::is_settled)
}
