//! Rows that nobody can read. What stood there is set aside for operators before it is written over.

use pinfold_lifecycle::{Fact, Policy, Sandbox, Spec, StopFailure, Transition};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde::de::DeserializeOwned;

use super::failure::WriteError;
use super::text;
use crate::Version;

/// Whether this change puts a quarantined state in the place of one that could not be read.
pub(super) fn is_replaced_by(transition: &Transition) -> bool {
    transition.records.iter().any(|record| {
        matches!(record.fact, Fact::Quarantined { failure: StopFailure::UnreadableRow { .. }, .. })
    })
}

/// Keeps the text of every part that cannot be read. The state is about to be replaced; a spec or policy that
/// is lost gives way to the default, or the row would stay unreadable for ever.
pub(super) fn set_aside(connection: &Connection, id: &str, version: Version) -> Result<(), WriteError> {
    let (spec, policy) = (text::write(&Spec::default())?, text::write(&Policy::default())?);
    // A row that is lost altogether is made again, to be replaced like any other.
    connection.execute("INSERT OR IGNORE INTO specs VALUES (?1, '', '')", [id])?;
    set_part_aside::<Sandbox>(connection, id, version, "state")?;
    if set_part_aside::<Spec>(connection, id, version, "spec")? {
        connection.execute("UPDATE specs SET spec = ?2 WHERE sandbox_id = ?1", (id, spec))?;
    }
    if set_part_aside::<Policy>(connection, id, version, "policy")? {
        connection.execute("UPDATE specs SET policy = ?2 WHERE sandbox_id = ?1", (id, policy))?;
    }
    Ok(())
}

fn set_part_aside<T: DeserializeOwned>(
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
        Ok((text::read::<T>(row, 0).is_err(), bytes))
    })?;
    if lost {
        keep(connection, id, version, part, &bytes)?;
    }
    Ok(lost)
}

pub(super) fn keep(
    connection: &Connection,
    id: &str,
    version: Version,
    was: &str,
    text: &[u8],
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO unreadable (sandbox_id, version, was, text) VALUES (?1, ?2, ?3, ?4)")?
        .execute((id, version.0, was, text))?;
    Ok(())
}
