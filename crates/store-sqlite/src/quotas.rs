//! Uses of quotas and names: one row for each quota key and for the name of a sandbox, until the sandbox is proven gone.

use pinfold_lifecycle::{QuotaKey, Spec};
use rusqlite::{Connection, OptionalExtension};

use crate::errors::{Refusal, WriteError};
use crate::json;
use crate::totals::unsigned;

pub(crate) const COUNT_USES: &str = "SELECT count(*) FROM quota_uses WHERE key = ?1";

pub(crate) fn uses(connection: &Connection, key: &QuotaKey) -> Result<u64, WriteError> {
    let mut statement = connection.prepare_cached(COUNT_USES)?;
    Ok(unsigned(statement.query_row([json::write(key)?], |row| row.get(0))?))
}

/// Refuses the name of a sandbox that is not proven gone.
pub(crate) fn refuse_taken_name(connection: &Connection, spec: &Spec) -> Result<(), WriteError> {
    let Some(name) = &spec.name else { return Ok(()) };
    let mut statement =
        connection.prepare_cached("SELECT sandbox_id FROM quota_uses WHERE key = ?1 LIMIT 1")?;
    let taken = statement
        .query_row([json::write(&QuotaKey::Name(name.clone()))?], |row| json::id(row, 0))
        .optional()?;
    match taken {
        Some(id) => Err(Refusal::NameTaken { name: name.clone(), id }.into()),
        None => Ok(()),
    }
}

/// Counts the sandbox for its name and each of its quota keys, once.
pub(crate) fn add_uses(connection: &Connection, id: &str, spec: &Spec) -> Result<(), WriteError> {
    for key in spec.quota_keys() {
        connection
            .prepare_cached("INSERT OR IGNORE INTO quota_uses (sandbox_id, key) VALUES (?1, ?2)")?
            .execute((id, json::write(&key)?))?;
    }
    Ok(())
}

/// Counts a sandbox again whose instance was found after its end.
pub(crate) fn add_uses_again(connection: &Connection, id: &str) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached("SELECT spec FROM specs WHERE sandbox_id = ?1")?;
    // A spec that cannot be read is counted in the totals only.
    let spec = statement.query_row([id], |row| Ok(json::read::<Spec>(row, 0).ok())).optional()?;
    match spec.flatten() {
        Some(spec) => add_uses(connection, id, &spec),
        None => Ok(()),
    }
}

/// Stops counting a sandbox that is proven gone.
pub(crate) fn remove_uses(connection: &Connection, id: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM quota_uses WHERE sandbox_id = ?1")?.execute([id])?;
    Ok(())
}
