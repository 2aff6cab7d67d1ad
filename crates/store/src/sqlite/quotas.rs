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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::sqlite::connect;
    use crate::sqlite::schema::MIGRATIONS;

    #[test]
    fn what_was_there_before_quotas_were_is_counted_by_its_labels() {
        let connection = connect::in_memory().unwrap();
        let at = MIGRATIONS.iter().position(|sql| sql.contains("quota_uses")).unwrap();
        connection.execute_batch(&MIGRATIONS[..at].concat()).unwrap();
        let labels = BTreeMap::from([("team".to_owned(), "r\"é\"d".to_owned())]);
        let spec = Spec { labels, ..Spec::default() };
        for (id, spec, settled_at) in [
            ("sbx_1", text::write(&spec).unwrap(), None),
            ("sbx_2", text::write(&spec).unwrap(), Some(7)),
            ("sbx_3", "{\"labels\"".to_owned(), None),
            ("sbx_4", text::write(&Spec::default()).unwrap(), None),
        ] {
            let values = "(?1, 1, 1, 'nod_1', 1, ?2, 1, 0, 0, 0, 0, '{}')";
            let columns =
                "id, version, generation, owner, created_at, settled_at, bodies, attested, memory_mb,
                disk_mb, processes, state";
            let sql = format!("INSERT INTO sandboxes ({columns}) VALUES {values}");
            connection.execute(&sql, (id, settled_at)).unwrap();
            connection.execute("INSERT INTO specs VALUES (?1, ?2, '{}')", (id, spec)).unwrap();
        }

        connection.execute_batch(MIGRATIONS[at]).unwrap();

        let key = &spec.quota_keys()[0];
        assert_eq!(taken(&connection, key).unwrap(), 1);
        let all: i64 = connection.query_row("SELECT count(*) FROM quota_uses", [], |row| row.get(0)).unwrap();
        assert_eq!(all, 1);
    }
}
