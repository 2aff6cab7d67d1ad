//! Everything that is asked of the rows without changing them. Each is one statement, and so one moment.

use std::collections::BTreeSet;
use std::sync::Arc;

use pinfold_lifecycle::{
    Effect, Execution, ExecutionId, Generation, NodeId, Policy, Sandbox, SandboxId, Shape, Spec, Timestamp,
};
use rusqlite::{Connection, OptionalExtension};
use serde::de::DeserializeOwned;

use super::ledger::{Ledger, unsigned};
use super::text;
use crate::{
    Changes, Due, Filter, HistoryRow, Node, NodeSeen, Row, Seq, Stored, StoredExecution, Unreadable, Version,
};

const CHANGED_ROWS: &str = "SELECT id FROM sandboxes WHERE version > ?1";
const CHANGED_RECORDS: &str = "SELECT sandbox_id FROM history WHERE seq > ?1";
const DUE: &str = "SELECT id, owner, next_deadline FROM sandboxes WHERE next_deadline <= ?1
    ORDER BY next_deadline, id LIMIT ?2";
const LAST_RECORD: &str =
    "SELECT seq, sandbox_id, record FROM history WHERE sandbox_id = ?1 ORDER BY seq DESC LIMIT 1";
const LEFT_BY: &str = "SELECT id FROM sandboxes WHERE owner = ?1 AND settled_at IS NULL
    UNION SELECT sandbox_id FROM effects WHERE node = ?1 ORDER BY 1";
const FORGOTTEN: &str =
    "SELECT owner FROM sandboxes WHERE settled_at IS NULL AND owner NOT IN (SELECT id FROM nodes)
    UNION SELECT node FROM effects WHERE node NOT IN (SELECT id FROM nodes) ORDER BY 1";
const WAITING: &str = "SELECT * FROM sandboxes WHERE waits_in = ?3 AND id > ?1 ORDER BY id LIMIT ?2";
const PARTS: &str = "LEFT JOIN specs p ON p.sandbox_id = s.id
    LEFT JOIN executions e ON e.sandbox_id = s.id AND e.ended = 0 ORDER BY s.id, e.n";
const COLUMNS: &str = "s.id, s.version, s.generation, s.state, p.spec, p.policy, e.state";

pub(super) fn load(connection: &Connection, id: SandboxId) -> rusqlite::Result<Option<Row>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sandboxes s LEFT JOIN specs p ON p.sandbox_id = s.id
         LEFT JOIN executions e ON e.sandbox_id = s.id AND e.ended = 0
         WHERE s.id = ?1 ORDER BY e.n"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(sandboxes(statement.query([id.to_string()])?)?.pop())
}

pub(super) fn list(
    connection: &Connection,
    filter: Filter,
    after: Option<SandboxId>,
    limit: usize,
) -> rusqlite::Result<Vec<Row>> {
    let wanted = match filter {
        Filter::Present => "settled_at IS NULL AND pooled = 0",
        Filter::Settled => "settled_at IS NOT NULL AND pooled = 0",
        Filter::All => "pooled = 0",
        Filter::Pooled => "settled_at IS NULL AND pooled = 1",
        Filter::Leased => "settled_at IS NULL",
    };
    let sql = format!(
        "SELECT {COLUMNS} FROM (SELECT * FROM sandboxes WHERE id > ?1 AND {wanted} ORDER BY id LIMIT ?2) s
         {PARTS}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let after = after.map(|id| id.to_string()).unwrap_or_default();
    sandboxes(statement.query((after, count(limit)))?)
}

pub(super) fn waiting(
    connection: &Connection,
    shape: &Shape,
    after: Option<SandboxId>,
    limit: usize,
) -> rusqlite::Result<Vec<Row>> {
    let sql = format!("SELECT {COLUMNS} FROM ({WAITING}) s {PARTS}");
    let mut statement = connection.prepare_cached(&sql)?;
    let unfit = |error: serde_json::Error| rusqlite::Error::ToSqlConversionFailure(error.into());
    let shape = serde_json::to_string(shape).map_err(unfit)?;
    let after = after.map(|id| id.to_string()).unwrap_or_default();
    sandboxes(statement.query((after, count(limit), shape))?)
}

/// Puts each sandbox together with its executions, which come as one row each.
fn sandboxes(mut rows: rusqlite::Rows<'_>) -> rusqlite::Result<Vec<Row>> {
    let mut found: Vec<Row> = Vec::new();
    let mut last = Last::default();
    while let Some(row) = rows.next()? {
        let id = text::id(row, 0)?;
        if found.last().map(Row::id) != Some(id) {
            found.push(sandbox(row, id, &mut last)?);
        }
        if matches!(row.get_ref(6)?, rusqlite::types::ValueRef::Null) {
            continue;
        }
        match (found.last_mut(), text::read::<Execution>(row, 6)) {
            (Some(Row::Readable(stored)), Ok(execution)) => stored.sandbox.executions.push(execution),
            (Some(last @ Row::Readable(_)), Err(error)) => *last = unreadable(row, id, &error)?,
            (Some(Row::Unreadable(_)) | None, _) => {}
        }
    }
    Ok(found)
}

/// What was read last. Most sandboxes were asked for like the one before.
#[derive(Default)]
struct Last {
    spec: Option<(String, Arc<Spec>)>,
    policy: Option<(String, Arc<Policy>)>,
}

fn like_the_last<T: DeserializeOwned>(
    row: &rusqlite::Row<'_>,
    column: usize,
    last: &mut Option<(String, Arc<T>)>,
) -> rusqlite::Result<Arc<T>> {
    let text = row.get_ref(column)?.as_str()?;
    match last {
        Some((same, value)) if same == text => Ok(value.clone()),
        _ => {
            let value = Arc::new(text::read(row, column)?);
            *last = Some((text.to_owned(), Arc::clone(&value)));
            Ok(value)
        }
    }
}

fn sandbox(row: &rusqlite::Row<'_>, id: SandboxId, last: &mut Last) -> rusqlite::Result<Row> {
    let mut stored = || {
        let sandbox: Sandbox = text::read(row, 3)?;
        Ok(Stored {
            sandbox,
            spec: like_the_last(row, 4, &mut last.spec)?,
            policy: like_the_last(row, 5, &mut last.policy)?,
            version: Version(row.get(1)?),
        })
    };
    match stored() {
        Ok(stored) => Ok(Row::Readable(Box::new(stored))),
        Err(error) => unreadable(row, id, &error),
    }
}

fn unreadable(row: &rusqlite::Row<'_>, id: SandboxId, error: &rusqlite::Error) -> rusqlite::Result<Row> {
    Ok(Row::Unreadable(Unreadable {
        id,
        generation: Generation(unsigned(row.get(2)?)),
        version: Version(row.get(1)?),
        why: error.to_string(),
    }))
}

pub(super) fn execution(
    connection: &Connection,
    id: ExecutionId,
) -> rusqlite::Result<Option<StoredExecution>> {
    let mut statement =
        connection.prepare_cached("SELECT sandbox_id, state, command FROM executions WHERE id = ?1")?;
    statement.query_row([id.to_string()], stored_execution).optional()
}

pub(super) fn executions(
    connection: &Connection,
    sandbox: SandboxId,
) -> rusqlite::Result<Vec<StoredExecution>> {
    let mut statement = connection.prepare_cached(
        "SELECT sandbox_id, state, command FROM executions WHERE sandbox_id = ?1 ORDER BY n",
    )?;
    let rows = statement.query_map([sandbox.to_string()], stored_execution)?;
    rows.collect()
}

fn stored_execution(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredExecution> {
    Ok(StoredExecution {
        sandbox: text::id(row, 0)?,
        execution: text::read(row, 1)?,
        command: Arc::new(text::read(row, 2)?),
    })
}

pub(super) fn due(connection: &Connection, now: Timestamp, limit: usize) -> rusqlite::Result<Vec<Due>> {
    let mut statement = connection.prepare_cached(DUE)?;
    let rows = statement.query_map((now.0, count(limit)), |row| {
        Ok(Due { id: text::id(row, 0)?, owner: text::id(row, 1)?, deadline: Timestamp(row.get(2)?) })
    })?;
    rows.collect()
}

pub(super) fn next_deadline(connection: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    let mut statement = connection.prepare_cached(
        "SELECT next_deadline FROM sandboxes WHERE next_deadline IS NOT NULL ORDER BY next_deadline LIMIT 1",
    )?;
    statement.query_row([], |row| row.get(0).map(Timestamp)).optional()
}

/// An effect that cannot be read is left out: its sandbox's deadline stands, and takes care of it.
pub(super) fn effects_of(connection: &Connection, node: NodeId) -> rusqlite::Result<Vec<Effect>> {
    let mut statement = connection
        .prepare_cached("SELECT effect FROM effects WHERE node = ?1 ORDER BY sandbox_id, ticket")?;
    let mut rows = statement.query([node.to_string()])?;
    let mut effects = Vec::new();
    while let Some(row) = rows.next()? {
        effects.extend(text::read(row, 0).ok());
    }
    Ok(effects)
}

/// What is settled is nobody's work any more, whoever owned it.
pub(super) fn left_by(connection: &Connection, node: NodeId) -> rusqlite::Result<Vec<SandboxId>> {
    let mut statement = connection.prepare_cached(LEFT_BY)?;
    let rows = statement.query_map([node.to_string()], |row| text::id(row, 0))?;
    rows.collect()
}

pub(super) fn history(
    connection: &Connection,
    of: Option<SandboxId>,
    after: Seq,
    limit: usize,
) -> rusqlite::Result<Vec<HistoryRow>> {
    let (of_one, of_all) = (
        "SELECT seq, sandbox_id, record FROM history WHERE sandbox_id = ?3 AND seq > ?1 ORDER BY seq LIMIT ?2",
        "SELECT seq, sandbox_id, record FROM history WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    );
    match of {
        Some(id) => connection
            .prepare_cached(of_one)?
            .query_map((after.0, count(limit), id.to_string()), history_row)?
            .collect(),
        None => connection.prepare_cached(of_all)?.query_map((after.0, count(limit)), history_row)?.collect(),
    }
}

pub(super) fn last_record(connection: &Connection, of: SandboxId) -> rusqlite::Result<Option<HistoryRow>> {
    connection.prepare_cached(LAST_RECORD)?.query_row([of.to_string()], history_row).optional()
}

pub(super) fn history_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<HistoryRow> {
    Ok(HistoryRow { seq: Seq(row.get(0)?), sandbox: text::id(row, 1)?, record: text::read(row, 2)? })
}

/// The place is read before the rows: what comes in between is told twice rather than never.
pub(super) fn changes(connection: &Connection, seen: Seq) -> rusqlite::Result<Changes> {
    let now = Ledger::read(connection)?.seq();
    if now == seen {
        return Ok(Changes { sandboxes: Vec::new(), seen });
    }
    let mut sandboxes = BTreeSet::new();
    // What is forgotten is only in the history; what has no record is only in its row.
    for sql in [CHANGED_ROWS, CHANGED_RECORDS] {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([seen.0])?;
        while let Some(row) = rows.next()? {
            sandboxes.insert(text::id(row, 0)?);
        }
    }
    Ok(Changes { sandboxes: sandboxes.into_iter().collect(), seen: now })
}

pub(super) fn nodes(connection: &Connection) -> rusqlite::Result<Vec<NodeSeen>> {
    let mut statement = connection
        .prepare_cached("SELECT id, host, boot_id, pid, started, heartbeat_at FROM nodes ORDER BY id")?;
    let rows = statement.query_map([], |row| {
        Ok(NodeSeen {
            node: Node {
                id: text::id(row, 0)?,
                host: row.get(1)?,
                boot_id: row.get(2)?,
                pid: row.get(3)?,
                started: unsigned(row.get(4)?),
            },
            heartbeat_at: Timestamp(row.get(5)?),
        })
    })?;
    rows.collect()
}

pub(super) fn forgotten_nodes(connection: &Connection) -> rusqlite::Result<Vec<NodeId>> {
    let mut statement = connection.prepare_cached(FORGOTTEN)?;
    let rows = statement.query_map([], |row| text::id(row, 0))?;
    rows.collect()
}

/// A page as SQLite counts it.
fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::sqlite::connect;
    use crate::sqlite::measures::{MEASURED, UP_TO};
    use crate::sqlite::quotas;
    use crate::sqlite::schema::MIGRATIONS;

    #[test]
    fn what_is_asked_again_is_not_planned_again() {
        let connection = connect::in_memory().unwrap();
        connection.execute_batch(&MIGRATIONS.concat()).unwrap();

        for now in 0..3 {
            due(&connection, Timestamp(now), 10).unwrap();
        }

        let statement = connection.prepare_cached(DUE).unwrap();
        assert_eq!(statement.get_status(StatementStatus::Run), 3);
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }

    #[test]
    fn what_is_like_the_last_is_shared_and_what_differs_is_not() {
        let connection = Connection::open_in_memory().unwrap();
        let rows = r#"SELECT column1 FROM (VALUES ('"a"'), ('"a"'), ('"b"'))"#;

        let mut last = None;
        let mut statement = connection.prepare(rows).unwrap();
        let read: Vec<Arc<String>> = statement
            .query_map([], |row| like_the_last(row, 0, &mut last))
            .unwrap()
            .map(Result::unwrap)
            .collect();

        assert_eq!(read.iter().map(|it| it.as_str()).collect::<Vec<_>>(), ["a", "a", "b"]);
        assert!(Arc::ptr_eq(&read[0], &read[1]));
    }

    #[test]
    fn what_is_asked_all_the_time_is_found_by_index() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&MIGRATIONS.concat()).unwrap();

        let of_others = [MEASURED, UP_TO, quotas::COUNT];
        for sql in
            [CHANGED_ROWS, CHANGED_RECORDS, DUE, LAST_RECORD, LEFT_BY, WAITING].into_iter().chain(of_others)
        {
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let parameters = vec![0; plan.parameter_count()];
            let mut steps = plan.query(rusqlite::params_from_iter(parameters)).unwrap();
            while let Some(step) = steps.next().unwrap() {
                let step: String = step.get(3).unwrap();
                assert!(!step.starts_with("SCAN"), "{sql}: {step}");
            }
        }
    }
}
