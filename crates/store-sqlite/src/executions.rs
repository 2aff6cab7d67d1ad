//! The execution rows of a sandbox, written in the transaction that changes its state.

use pinfold_lifecycle::{Execution, ExecutionState, Outcome, Timestamp, Transition};
use rusqlite::{Connection, params};

use crate::errors::{InvalidRequest, Refusal, WriteError};
use crate::{json, unreadable};
use pinfold_store::{NewExecution, Version};

/// An execution that had not ended before the change.
struct RunningRow {
    id: String,
    state: String,
}

/// `version` is stored with the text of rows that cannot be read.
pub(crate) fn write(
    connection: &Connection,
    sandbox: &str,
    transition: &Transition,
    commands: &[NewExecution],
    version: Version,
) -> Result<(), WriteError> {
    let running = running_rows(connection, sandbox)?;
    let now = transition.sandbox.executions.iter().chain(&transition.finished);
    for execution in now.clone() {
        let id = execution.id.to_string();
        let state = json::write(execution)?;
        match running.iter().find(|stored| stored.id == id) {
            Some(stored) if stored.state == state => {}
            Some(_) => update(connection, &id, execution, &state)?,
            None => insert(connection, sandbox, commands, execution, &state)?,
        }
    }
    for missing in &running {
        if !now.clone().any(|execution| execution.id.to_string() == missing.id) {
            end_as_lost(connection, sandbox, transition, version, missing)?;
        }
    }
    Ok(())
}

fn running_rows(connection: &Connection, sandbox: &str) -> rusqlite::Result<Vec<RunningRow>> {
    let mut statement =
        connection.prepare_cached("SELECT id, state FROM executions WHERE sandbox_id = ?1 AND ended = 0")?;
    let rows = statement.query_map([sandbox], |row| {
        Ok(RunningRow {
            id: row.get(0)?,
            state: String::from_utf8_lossy(row.get_ref(1)?.as_bytes()?).into_owned(),
        })
    })?;
    rows.collect()
}

fn is_ended(execution: &Execution) -> bool {
    matches!(execution.state, ExecutionState::Ended { .. })
}

fn update(connection: &Connection, id: &str, execution: &Execution, state: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE executions SET state = ?2, ended = ?3 WHERE id = ?1")?
        .execute(params![id, state, is_ended(execution)])?;
    Ok(())
}

fn insert(
    connection: &Connection,
    sandbox: &str,
    commands: &[NewExecution],
    execution: &Execution,
    state: &str,
) -> Result<(), WriteError> {
    let invalid = |why| Refusal::Invalid { action: "write an execution", reason: why };
    let new = commands.iter().find(|new| new.id == execution.id);
    let new = new.ok_or_else(|| invalid(InvalidRequest::NoCommand(execution.id)))?;
    let inserted = connection
        .prepare_cached(
            "INSERT INTO executions (id, sandbox_id, ended, requested_at, state, command)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            execution.id.to_string(),
            sandbox,
            is_ended(execution),
            execution.requested_at.0,
            state,
            json::write(new.command.as_ref())?,
        ])?;
    // An outcome is written once: an id that was ever used, in any sandbox, is refused.
    if inserted == 0 {
        return Err(invalid(InvalidRequest::UsedExecution(execution.id)).into());
    }
    Ok(())
}

/// Ends an execution that the new state does not list: the old state could not be read and was replaced.
fn end_as_lost(
    connection: &Connection,
    sandbox: &str,
    transition: &Transition,
    version: Version,
    missing: &RunningRow,
) -> Result<(), WriteError> {
    let Ok(execution) = serde_json::from_str::<Execution>(&missing.state) else {
        unreadable::store_copy(connection, sandbox, version, &missing.id, missing.state.as_bytes())?;
        connection.prepare_cached("DELETE FROM executions WHERE id = ?1")?.execute([&missing.id])?;
        return Ok(());
    };
    let lost = Execution {
        state: ExecutionState::Ended {
            outcome: Outcome::lost("the row of its sandbox could not be read"),
            at: time_of(transition),
        },
        ..execution
    };
    Ok(update(connection, &missing.id, &lost, &json::write(&lost)?)?)
}

fn time_of(transition: &Transition) -> Timestamp {
    transition.records.last().map_or(transition.sandbox.created_at, |record| record.at)
}
