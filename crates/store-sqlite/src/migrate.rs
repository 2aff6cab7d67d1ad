//! Migrates a database to the schema of this program, one checksummed migration at a time, or refuses it.

use rusqlite::{Connection, TransactionBehavior};

use crate::schema::APPLICATION_ID;

#[derive(Debug, thiserror::Error)]
pub(crate) enum MigrateError {
    #[error("the schema is {found} and only {known} is known")]
    Newer { found: i64, known: i64 },
    #[error("migration {version} is not the one this program has")]
    Foreign { version: i64 },
    #[error("the file belongs to another program (application id {found:#x})")]
    NotOurs { found: i64 },
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Checks the version before it writes anything: a newer database is left as it is.
pub(crate) fn migrate(connection: &mut Connection, migrations: &[&str]) -> Result<(), MigrateError> {
    let known = version_number(migrations.len());
    let found = refuse_foreign_or_newer(connection, known)?;
    if found == known {
        return verify(connection, migrations, found);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have migrated while this one waited for the lock.
    let found = refuse_foreign_or_newer(&transaction, known)?;
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER PRIMARY KEY, checksum TEXT NOT NULL)",
    )?;
    verify(&transaction, migrations, found)?;
    for (index, sql) in migrations.iter().enumerate() {
        let version = version_number(index + 1);
        if version <= found {
            continue;
        }
        transaction.execute_batch(sql)?;
        transaction.execute(
            "INSERT INTO schema_migrations (version, checksum) VALUES (?1, ?2)",
            (version, checksum(sql)),
        )?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(())
}

pub(crate) fn schema_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}

fn refuse_foreign_or_newer(connection: &Connection, known: i64) -> Result<i64, MigrateError> {
    let owner: i64 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let found = schema_version(connection)?;
    if owner != APPLICATION_ID && (owner != 0 || found != 0) {
        return Err(MigrateError::NotOurs { found: owner });
    }
    if found > known {
        return Err(MigrateError::Newer { found, known });
    }
    Ok(found)
}

fn verify(connection: &Connection, migrations: &[&str], found: i64) -> Result<(), MigrateError> {
    for (index, sql) in migrations.iter().enumerate() {
        let version = version_number(index + 1);
        if version > found {
            break;
        }
        let applied: Option<String> = rusqlite::OptionalExtension::optional(connection.query_row(
            "SELECT checksum FROM schema_migrations WHERE version = ?1",
            [version],
            |row| row.get(0),
        ))?;
        if applied.as_deref() != Some(checksum(sql).as_str()) {
            return Err(MigrateError::Foreign { version });
        }
    }
    Ok(())
}

/// FNV-1a: it detects an edited migration, not an attacker.
fn checksum(sql: &str) -> String {
    let hash = sql.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn version_number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pinfold_lifecycle::Spec;

    use super::*;
    use crate::schema::MIGRATIONS;
    use crate::{connect, json};

    const ONE: &[&str] = &["CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (7)"];
    const TWO: &[&str] = &[ONE[0], "ALTER TABLE a ADD COLUMN y INTEGER NOT NULL DEFAULT 8"];

    #[test]
    fn an_older_database_is_brought_forward_with_its_rows() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, ONE).unwrap();

        migrate(&mut connection, TWO).unwrap();

        let row = connection.query_row("SELECT x, y FROM a", [], |row| Ok((row.get(0)?, row.get(1)?)));
        assert_eq!(row, Ok((7, 8)));
        assert_eq!(schema_version(&connection), Ok(2));
    }

    #[test]
    fn a_newer_database_is_refused_and_left_as_it_is() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, TWO).unwrap();

        let refusal = migrate(&mut connection, ONE);

        assert!(matches!(refusal, Err(MigrateError::Newer { found: 2, known: 1 })));
        assert_eq!(schema_version(&connection), Ok(2));
    }

    #[test]
    fn a_migration_that_was_edited_afterwards_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, ONE).unwrap();

        for edited in [&["CREATE TABLE a (x TEXT)"][..], &["CREATE TABLE a (x TEXT)", TWO[1]]] {
            let refusal = migrate(&mut connection, edited);

            assert!(matches!(refusal, Err(MigrateError::Foreign { version: 1 })));
        }
        assert_eq!(schema_version(&connection), Ok(1));
    }

    #[test]
    fn a_migration_that_fails_leaves_nothing_behind() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, ONE).unwrap();

        let failure = migrate(&mut connection, &[ONE[0], "CREATE TABLE b (x); CREATE TABLE a (again)"]);

        assert!(matches!(failure, Err(MigrateError::Sqlite(_))));
        assert_eq!(schema_version(&connection), Ok(1));
        assert!(connection.prepare("SELECT * FROM b").is_err());
    }

    #[test]
    fn a_database_of_another_program_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "application_id", 99).unwrap();

        let refusal = migrate(&mut connection, ONE);

        assert!(matches!(refusal, Err(MigrateError::NotOurs { found: 99 })));
    }

    fn insert_sandbox(connection: &Connection, id: &str, spec: &str, settled_at: Option<i64>) {
        let columns =
            "id, version, generation, owner, created_at, settled_at, instances, attested, memory_mb,
            disk_mb, processes, state, pooled";
        let values = "(?1, 1, 1, 'nod_1', 1, ?2, 1, 0, 0, 0, 0, '{}', 0)";
        let sql = format!("INSERT INTO sandboxes ({columns}) VALUES {values}");
        connection.execute(&sql, (id, settled_at)).unwrap();
        connection.execute("INSERT INTO specs VALUES (?1, ?2, '{}')", (id, spec)).unwrap();
    }

    #[test]
    fn a_store_of_the_first_schema_is_brought_forward_with_its_rows() {
        let second = "ALTER TABLE sandboxes ADD COLUMN zone TEXT NOT NULL DEFAULT 'here';
            CREATE INDEX sandboxes_by_zone ON sandboxes (zone)";
        let mut connection = connect::in_memory().unwrap();
        migrate(&mut connection, MIGRATIONS).unwrap();
        (1..=50).for_each(|id| insert_sandbox(&connection, &format!("sbx_{id}"), "{}", None));

        migrate(&mut connection, &[MIGRATIONS, &[second]].concat()).unwrap();

        let count = "SELECT count(*) FROM sandboxes WHERE zone = 'here'";
        assert_eq!(connection.query_row(count, [], |row| row.get(0)), Ok(50));
        assert_eq!(schema_version(&connection), Ok(2));
        assert!(matches!(
            migrate(&mut connection, MIGRATIONS),
            Err(MigrateError::Newer { found: 2, known: 1 })
        ));
    }

    #[test]
    fn a_migration_can_derive_rows_from_stored_json_of_which_some_is_damaged() {
        let second = r#"
            CREATE TABLE label_uses (sandbox_id TEXT NOT NULL, key TEXT NOT NULL);
            INSERT INTO label_uses
                SELECT s.id, json_object('label', json_object('name', l.key, 'value', l.value))
                FROM sandboxes s JOIN specs p ON p.sandbox_id = s.id,
                json_each(CASE WHEN json_valid(p.spec) THEN p.spec ELSE '{}' END, '$.labels') l
                WHERE s.settled_at IS NULL"#;
        let mut connection = connect::in_memory().unwrap();
        migrate(&mut connection, MIGRATIONS).unwrap();
        let labels = BTreeMap::from([("team".to_owned(), "r\"é\"d".to_owned())]);
        let spec = Spec { labels, ..Spec::default() };
        insert_sandbox(&connection, "sbx_1", &json::write(&spec).unwrap(), None);
        insert_sandbox(&connection, "sbx_2", &json::write(&spec).unwrap(), Some(7));
        insert_sandbox(&connection, "sbx_3", "{\"labels\"", None);
        insert_sandbox(&connection, "sbx_4", &json::write(&Spec::default()).unwrap(), None);

        migrate(&mut connection, &[MIGRATIONS, &[second]].concat()).unwrap();

        let found = connection.query_row("SELECT sandbox_id, key FROM label_uses", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        });
        assert_eq!(found, Ok(("sbx_1".to_owned(), json::write(&spec.quota_keys()[0]).unwrap())));
        let all: i64 = connection.query_row("SELECT count(*) FROM label_uses", [], |row| row.get(0)).unwrap();
        assert_eq!(all, 1);
    }
}
