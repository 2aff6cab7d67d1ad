//! The rows of a sandbox's executions: written when new or changed, ended with their sandbox's state.

use pinfold_lifecycle::{Execution, ExecutionState, Outcome, Timestamp, Transition};
use rusqlite::{Connection, params};

use super::failure::{Refused, Unfit, WriteError};
use super::{text, unreadable};
use crate::{NewExecution, Version};

/// One that had not ended before the change.
struct Going {
    id: String,
    state: String,
}

/// `version` names what is set aside if a row cannot be read.
pub(super) fn write(
    connection: &Connection,
    sandbox: &str,
    transition: &Transition,
    commands: &[NewExecution],
    version: Version,
) -> Result<(), WriteError> {
    let going = going_on(connection, sandbox)?;
    let now = transition.sandbox.executions.iter().chain(&transition.finished);
    for execution in now.clone() {
        let id = execution.id.to_string();
        let state = text::write(execution)?;
        match going.iter().find(|stored| stored.id == id) {
            Some(stored) if stored.state == state => {}
            Some(_) => update(connection, &id, execution, &state)?,
            None => insert(connection, sandbox, commands, execution, &state)?,
        }
    }
    for left in &going {
        if !now.clone().any(|execution| execution.id.to_string() == left.id) {
            lose(connection, sandbox, transition, version, left)?;
        }
    }
    Ok(())
}

fn going_on(connection: &Connection, sandbox: &str) -> rusqlite::Result<Vec<Going>> {
    let mut statement =
        connection.prepare_cached("SELECT id, state FROM executions WHERE sandbox_id = ?1 AND ended = 0")?;
    let rows = statement.query_map([sandbox], |row| {
        Ok(Going {
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
    let unfit = |why| Refused::Unfit { doing: "write an execution", why };
    let new = commands.iter().find(|new| new.id == execution.id);
    let new = new.ok_or_else(|| unfit(Unfit::NoCommand(execution.id)))?;
    let inserted = connection
        .prepare_cached(
            "INSERT INTO executions (id, sandbox_id, ended, asked_at, state, command)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            execution.id.to_string(),
            sandbox,
            is_ended(execution),
            execution.asked_at.0,
            state,
            text::write(new.command.as_ref())?,
        ])?;
    // An outcome is written once: an id that was ever used, here or elsewhere, is not used again.
    if inserted == 0 {
        return Err(unfit(Unfit::UsedExecution(execution.id)).into());
    }
    Ok(())
}

/// A state that could not be read was replaced by one that knows nothing of this execution.
fn lose(
    connection: &Connection,
    sandbox: &str,
    transition: &Transition,
    version: Version,
    left: &Going,
) -> Result<(), WriteError> {
    let Ok(execution) = serde_json::from_str::<Execution>(&left.state) else {
        unreadable::keep(connection, sandbox, version, &left.id, left.state.as_bytes())?;
        connection.prepare_cached("DELETE FROM executions WHERE id = ?1")?.execute([&left.id])?;
        return Ok(());
    };
    let lost = Execution {
        state: ExecutionState::Ended {
            outcome: Outcome::lost("the row of its sandbox could not be read"),
            at: moment_of(transition),
        },
        ..execution
    };
    Ok(update(connection, &left.id, &lost, &text::write(&lost)?)?)
}

fn moment_of(transition: &Transition) -> Timestamp {
    transition.records.last().map_or(transition.sandbox.created_at, |record| record.at)
}
