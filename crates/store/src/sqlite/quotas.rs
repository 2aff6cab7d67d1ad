//! What sandboxes are counted by besides all together: a row for each of their keys, as long as they are not proven gone.

use pinfold_lifecycle::{QuotaKey, Spec};
use rusqlite::{Connection, OptionalExtension};

use super::failure::WriteError;
use super::ledger::unsigned;
use super::text;

pub(super) const COUNT: &str = "SELECT count(*) FROM quota_uses WHERE key = ?1";

pub(super) fn taken(connection: &Connection, key: &QuotaKey) -> Result<u64, WriteError> {
    let mut statement = connection.prepare_cached(COUNT)?;
    Ok(unsigned(statement.query_row([text::write(key)?], |row| row.get(0))?))
}

/// It takes its places, where it has not yet.
pub(super) fn take(connection: &Connection, id: &str, spec: &Spec) -> Result<(), WriteError> {
    for key in spec.quota_keys() {
        connection
            .prepare_cached("INSERT OR IGNORE INTO quota_uses (sandbox_id, key) VALUES (?1, ?2)")?
            .execute((id, text::write(&key)?))?;
    }
    Ok(())
}

/// The same for one whose body was found after its end.
pub(super) fn take_again(connection: &Connection, id: &str) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached("SELECT spec FROM specs WHERE sandbox_id = ?1")?;
    // One that cannot be read is counted in the totals alone.
    let spec = statement.query_row([id], |row| Ok(text::read::<Spec>(row, 0).ok())).optional()?;
    match spec.flatten() {
        Some(spec) => take(connection, id, &spec),
        None => Ok(()),
    }
}

/// It is proven gone.
pub(super) fn free(connection: &Connection, id: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM quota_uses WHERE sandbox_id = ?1")?.execute([id])?;
    Ok(())
}
