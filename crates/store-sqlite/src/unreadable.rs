//! Rows that cannot be parsed. Their text is copied aside for operators before it is replaced.

use pinfold_lifecycle::{Fact, Policy, Sandbox, Spec, StopFailure, Transition};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde::de::DeserializeOwned;

use crate::errors::WriteError;
use crate::json;
use pinfold_store::Version;

/// Whether this change replaces an unreadable state by a quarantined one.
pub(crate) fn is_replaced_by(transition: &Transition) -> bool {
    transition.records.iter().any(|record| {
        matches!(record.fact, Fact::Quarantined { failure: StopFailure::UnreadableRow { .. }, .. })
    })
}

/// Copies the text of every unreadable part aside. The state is about to be replaced; an unreadable spec or policy is
/// replaced by the default here, or the row would stay unreadable for ever.
pub(crate) fn copy_aside(connection: &Connection, id: &str, version: Version) -> Result<(), WriteError> {
    let (spec, policy) = (json::write(&Spec::default())?, json::write(&Policy::default())?);
    // A missing row is made again, to be replaced like any other.
    connection.execute("INSERT OR IGNORE INTO specs VALUES (?1, '', '')", [id])?;
    copy_part_aside::<Sandbox>(connection, id, version, "state")?;
    if copy_part_aside::<Spec>(connection, id, version, "spec")? {
        connection.execute("UPDATE specs SET spec = ?2 WHERE sandbox_id = ?1", (id, spec))?;
    }
    if copy_part_aside::<Policy>(connection, id, version, "policy")? {
        connection.execute("UPDATE specs SET policy = ?2 WHERE sandbox_id = ?1", (id, policy))?;
    }
    Ok(())
}

fn copy_part_aside<T: DeserializeOwned>(
    connection: &Connection,
    id: &str,
    version: Version,
    part: &str,
) -> rusqlite::Result<bool> {
    let sql = format!("SELECT {part} FROM sandboxes JOIN specs ON sandbox_id = id WHERE id = ?1");
    let (lost, bytes) = connection.query_row(&sql, [id], |row| {
        let bytes = match row.get_ref(0)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => Vec::new(),
        };
        Ok((json::read::<T>(row, 0).is_err(), bytes))
    })?;
    if lost {
        store_copy(connection, id, version, part, &bytes)?;
    }
    Ok(lost)
}

pub(crate) fn store_copy(
    connection: &Connection,
    id: &str,
    version: Version,
    part: &str,
    content: &[u8],
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO unreadable_parts (sandbox_id, version, part, content) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute((id, version.0, part, content))?;
    Ok(())
}
