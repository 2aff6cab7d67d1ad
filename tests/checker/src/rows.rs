//! Reads the store's rows with SQL of its own. Never writes.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

#[derive(Debug, thiserror::Error)]
#[error("could not read the store: {0}")]
pub struct RowsError(#[from] rusqlite::Error);

#[derive(Debug, Clone)]
pub struct Row {
    pub id: String,
    pub generation: i64,
    pub next_deadline: Option<i64>,
    pub is_settled: bool,
    pub is_pooled: bool,
    pub state: Value,
}

/// An execution that has not ended.
#[derive(Debug, Clone)]
pub struct OpenExecution {
    pub id: String,
    pub sandbox: String,
    pub is_running: bool,
}

impl Row {
    #[must_use]
    pub fn instance_name(&self) -> String {
        format!("v1.{}.{}", self.id, self.generation)
    }
}

/// A consistent snapshot of all rows.
#[derive(Debug)]
pub struct Rows {
    pub instance: String,
    pub sandboxes: Vec<Row>,
    pub created: i64,
    pub destroyed: i64,
    pub pooled: i64,
    /// Sandboxes whose row was deleted; part of both `created` and `destroyed`.
    pub gone: i64,
    pub open_executions: Vec<OpenExecution>,
    /// Stray instances of sandboxes outside of the pool; pooled ones are not counted in `created` either.
    pub strays: i64,
}

impl Rows {
    pub fn read(data: &Path) -> Result<Self, RowsError> {
        let connection = open(data, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        // One read transaction, so that all queries see the same state.
        connection.execute_batch("BEGIN")?;
        let instance =
            connection.query_row("SELECT value FROM meta WHERE name = 'store_id'", [], |row| row.get(0))?;
        let (created, destroyed, pooled, gone) =
            connection.query_row("SELECT created, destroyed, pooled, deleted FROM totals", [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })?;
        let mut statement = connection.prepare(
            "SELECT id, generation, next_deadline, settled_at IS NOT NULL, pooled, state FROM sandboxes",
        )?;
        let sandboxes = statement.query_map([], |row| {
            let state: String = row.get(5)?;
            Ok(Row {
                id: row.get(0)?,
                generation: row.get(1)?,
                next_deadline: row.get(2)?,
                is_settled: row.get(3)?,
                is_pooled: row.get(4)?,
                state: serde_json::from_str(&state).unwrap_or_default(),
            })
        })?;
        let sandboxes = sandboxes.collect::<Result<Vec<_>, _>>()?;
        let mut statement =
            connection.prepare("SELECT id, sandbox_id, state FROM executions WHERE ended = 0")?;
        let open_executions = statement.query_map([], |row| {
            let state: String = row.get(2)?;
            let state: Value = serde_json::from_str(&state).unwrap_or_default();
            let is_running = state.pointer("/state/running").is_some();
            Ok(OpenExecution { id: row.get(0)?, sandbox: row.get(1)?, is_running })
        })?;
        let open_executions = open_executions.collect::<Result<Vec<_>, _>>()?;
        let given_out = sandboxes.iter().filter(|row| !row.is_pooled);
        let strays = given_out.filter_map(|row| row.state.get("strays")?.as_i64()).sum();
        Ok(Self { instance, sandboxes, created, destroyed, pooled, gone, open_executions, strays })
    }

    /// Result of SQLite's integrity check, if it found damage.
    pub fn damage(data: &Path) -> Result<Option<String>, RowsError> {
        let connection = open(data, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let report: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        Ok((report != "ok").then_some(report))
    }

    /// Holds an exclusive lock, as another process with the file open could.
    pub fn lock_out(data: &Path, meanwhile: impl FnOnce()) -> Result<(), RowsError> {
        let connection = open(data, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.busy_timeout(std::time::Duration::from_secs(10))?;
        connection.execute_batch("BEGIN EXCLUSIVE")?;
        meanwhile();
        connection.execute_batch("ROLLBACK")?;
        Ok(())
    }
}

fn open(data: &Path, flags: OpenFlags) -> Result<Connection, RowsError> {
    let connection = Connection::open_with_flags(data.join("store/pinfold.db"), flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    Ok(connection)
}
