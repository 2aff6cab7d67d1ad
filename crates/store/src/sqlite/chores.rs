//! Chores and their runs as rows. A turn is the number of its run: whoever holds another number has lost it.

use async_trait::async_trait;
use pinfold_lifecycle::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

use super::failure::WriteError;
use super::ledger::signed;
use super::runs::Runs;
use super::text;
use super::write::{Write, Wrote};
use crate::{
    CameTo, Chore, Chores, Held, NewRun, RUNS_KEPT, Run, RunEnded, RunId, StoreError, TakeTurn, Turn,
};

#[async_trait]
impl<R: Runs> Chores for R {
    async fn plan(&self, chore: &str, schedule: &str, due_at: Timestamp) -> Result<(), StoreError> {
        let (chore, schedule) = (chore.to_owned(), schedule.to_owned());
        self.write(Write::PlanChore { chore, schedule, due_at }).await?;
        Ok(())
    }

    async fn chores(&self) -> Result<Vec<Chore>, StoreError> {
        self.read("list chores", list)
    }

    async fn take(&self, ask: TakeTurn) -> Result<Option<Turn>, StoreError> {
        let chore = ask.chore.clone();
        match self.write(Write::TakeTurn(ask)).await? {
            Wrote::Taken(Some((run, due_at))) => Ok(Some(Turn { chore, run, due_at })),
            _ => Ok(None),
        }
    }

    async fn hold(&self, turn: &Turn, until: Timestamp) -> Result<bool, StoreError> {
        let held = self.write(Write::HoldTurn { turn: turn.clone(), until }).await?;
        Ok(held == Wrote::StillHeld(true))
    }

    async fn finish(
        &self,
        turn: &Turn,
        at: Timestamp,
        next_due: Timestamp,
        came_to: CameTo,
    ) -> Result<bool, StoreError> {
        let write = Write::FinishTurn { turn: turn.clone(), at, next_due, came_to: Box::new(came_to) };
        Ok(self.write(write).await? == Wrote::StillHeld(true))
    }

    async fn add_run(&self, run: NewRun) -> Result<RunId, StoreError> {
        match self.write(Write::AddRun(Box::new(run))).await? {
            Wrote::RunAdded(id) => Ok(id),
            _ => Err(super::runs::mixed_up()),
        }
    }

    async fn runs(&self, chore: Option<&str>, limit: usize) -> Result<Vec<Run>, StoreError> {
        self.read("list runs of chores", |rows| runs(rows, chore, limit))
    }
}

pub(super) fn plan(
    connection: &Connection,
    chore: &str,
    schedule: &str,
    due_at: Timestamp,
) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO chores (name, schedule, due_at) VALUES (?1, ?2, ?3)
         ON CONFLICT (name) DO UPDATE SET schedule = ?2, due_at = ?3 WHERE schedule <> ?2",
    )?;
    statement.execute((chore, schedule, due_at.0))?;
    Ok(())
}

pub(super) fn take(
    connection: &Connection,
    ask: &TakeTurn,
) -> Result<Option<(RunId, Timestamp)>, WriteError> {
    let mut due = connection.prepare_cached(
        "SELECT due_at, run FROM chores
         WHERE name = ?1 AND due_at <= ?2 AND (run IS NULL OR held_until <= ?2)",
    )?;
    let found = due.query_row((&ask.chore, ask.now.0), |row| {
        Ok((Timestamp(row.get(0)?), row.get::<_, Option<i64>>(1)?))
    });
    let Some((due_at, dead)) = found.optional()? else { return Ok(None) };
    if let Some(dead) = dead {
        end_run(connection, RunId(dead), ask.now, &CameTo::Lost)?;
    }
    let run = begin_run(connection, &ask.chore, &ask.node.to_string(), Some(due_at), ask.now)?;
    connection
        .prepare_cached("UPDATE chores SET run = ?2, held_by = ?3, held_until = ?4 WHERE name = ?1")?
        .execute((&ask.chore, run.0, ask.node.to_string(), ask.hold_until.0))?;
    Ok(Some((run, due_at)))
}

pub(super) fn hold(connection: &Connection, turn: &Turn, until: Timestamp) -> Result<bool, WriteError> {
    let mut statement =
        connection.prepare_cached("UPDATE chores SET held_until = ?3 WHERE name = ?1 AND run = ?2")?;
    Ok(statement.execute((&turn.chore, turn.run.0, until.0))? > 0)
}

pub(super) fn finish(
    connection: &Connection,
    turn: &Turn,
    at: Timestamp,
    next_due: Timestamp,
    came_to: &CameTo,
) -> Result<bool, WriteError> {
    let mut statement = connection.prepare_cached(
        "UPDATE chores SET run = NULL, held_by = NULL, held_until = NULL, due_at = ?3 WHERE name = ?1 AND run = ?2",
    )?;
    if statement.execute((&turn.chore, turn.run.0, next_due.0))? == 0 {
        return Ok(false);
    }
    end_run(connection, turn.run, at, came_to)?;
    forget_old_runs(connection, &turn.chore)?;
    Ok(true)
}

pub(super) fn add_run(connection: &Connection, run: &NewRun) -> Result<RunId, WriteError> {
    let id = begin_run(connection, &run.chore, &run.node.to_string(), None, run.began_at)?;
    end_run(connection, id, run.ended_at, &run.came_to)?;
    forget_old_runs(connection, &run.chore)?;
    Ok(id)
}

fn begin_run(
    connection: &Connection,
    chore: &str,
    node: &str,
    due_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<RunId, WriteError> {
    connection
        .prepare_cached("INSERT INTO chore_runs (chore, node, due_at, began_at) VALUES (?1, ?2, ?3, ?4)")?
        .execute((chore, node, due_at.map(|at| at.0), now.0))?;
    Ok(RunId(connection.last_insert_rowid()))
}

/// What was written once stays.
fn end_run(connection: &Connection, run: RunId, at: Timestamp, came_to: &CameTo) -> Result<(), WriteError> {
    connection
        .prepare_cached(
            "UPDATE chore_runs SET ended_at = ?2, came_to = ?3 WHERE id = ?1 AND ended_at IS NULL",
        )?
        .execute((run.0, at.0, text::write(came_to)?))?;
    Ok(())
}

fn forget_old_runs(connection: &Connection, chore: &str) -> Result<(), WriteError> {
    connection
        .prepare_cached(
            "DELETE FROM chore_runs WHERE chore = ?1 AND id <=
             (SELECT id FROM chore_runs WHERE chore = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute((chore, signed(RUNS_KEPT as u64)))?;
    Ok(())
}

fn list(connection: &Connection) -> rusqlite::Result<Vec<Chore>> {
    let mut statement = connection
        .prepare_cached("SELECT name, schedule, due_at, held_by, held_until FROM chores ORDER BY name")?;
    let mut rows = statement.query([])?;
    let mut chores = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let held = match row.get::<_, Option<i64>>(4)? {
            Some(until) => Some(Held { by: text::id(row, 3)?, until: Timestamp(until) }),
            None => None,
        };
        let last_run = last_turn(connection, &name)?;
        let (schedule, due_at) = (row.get(1)?, Timestamp(row.get(2)?));
        chores.push(Chore { name, schedule, due_at, held, last_run });
    }
    Ok(chores)
}

const COLUMNS: &str = "id, chore, node, due_at, began_at, ended_at, came_to";

fn last_turn(connection: &Connection, chore: &str) -> rusqlite::Result<Option<Run>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM chore_runs WHERE chore = ?1 AND due_at IS NOT NULL ORDER BY id DESC LIMIT 1"
    ))?;
    statement.query_row([chore], run).optional()
}

fn runs(connection: &Connection, chore: Option<&str>, limit: usize) -> rusqlite::Result<Vec<Run>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM chore_runs WHERE ?1 IS NULL OR chore = ?1 ORDER BY id DESC LIMIT ?2"
    ))?;
    statement.query_map((chore, signed(limit as u64)), run)?.collect()
}

fn run(row: &Row<'_>) -> rusqlite::Result<Run> {
    let ended = match row.get::<_, Option<i64>>(5)? {
        Some(at) => Some(RunEnded { at: Timestamp(at), came_to: text::read(row, 6)? }),
        None => None,
    };
    Ok(Run {
        id: RunId(row.get(0)?),
        chore: row.get(1)?,
        node: text::id(row, 2)?,
        due_at: row.get::<_, Option<i64>>(3)?.map(Timestamp),
        began_at: Timestamp(row.get(4)?),
        ended,
    })
}
