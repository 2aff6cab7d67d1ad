//! Reads of sandboxes, history and nodes. Each is one statement, and so sees one snapshot.

use std::collections::BTreeSet;
use std::sync::Arc;

use pinfold_lifecycle::{
    Effect, Execution, ExecutionId, Generation, NodeId, Policy, Sandbox, SandboxId, Shape, Spec, Timestamp,
};
use rusqlite::{Connection, OptionalExtension};
use serde::de::DeserializeOwned;

use crate::json;
use crate::totals::{TotalsRow, unsigned};
use pinfold_store::{
    Changes, DueSandbox, HistoryRow, Node, RegisteredNode, Row, SandboxFilter, Seq, StoredExecution,
    StoredSandbox, UnreadableRow, Version,
};

const CHANGED_ROWS: &str = "SELECT id FROM sandboxes WHERE version > ?1";
const CHANGED_RECORDS: &str = "SELECT sandbox_id FROM history WHERE seq > ?1";
const DUE: &str = "SELECT id, owner, next_deadline FROM sandboxes WHERE next_deadline <= ?1
    ORDER BY next_deadline, id LIMIT ?2";
const LAST_RECORD: &str =
    "SELECT seq, sandbox_id, record FROM history WHERE sandbox_id = ?1 ORDER BY seq DESC LIMIT 1";
const SANDBOXES_OF_NODE: &str = "SELECT id FROM sandboxes WHERE owner = ?1 AND settled_at IS NULL
    UNION SELECT sandbox_id FROM effects WHERE node = ?1 ORDER BY 1";
const UNREGISTERED_NODES: &str =
    "SELECT owner FROM sandboxes WHERE settled_at IS NULL AND owner NOT IN (SELECT id FROM nodes)
    UNION SELECT node FROM effects WHERE node NOT IN (SELECT id FROM nodes) ORDER BY 1";
const POOL_MEMBERS: &str = "SELECT * FROM sandboxes WHERE pool_shape = ?3 AND id > ?1 ORDER BY id LIMIT ?2";
const JOINED_TABLES: &str = "LEFT JOIN specs p ON p.sandbox_id = s.id
    LEFT JOIN executions e ON e.sandbox_id = s.id AND e.ended = 0 ORDER BY s.id, e.seq";
const COLUMNS: &str = "s.id, s.version, s.generation, s.state, p.spec, p.policy, e.state";

pub(crate) fn load(connection: &Connection, id: SandboxId) -> rusqlite::Result<Option<Row>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sandboxes s LEFT JOIN specs p ON p.sandbox_id = s.id
         LEFT JOIN executions e ON e.sandbox_id = s.id AND e.ended = 0
         WHERE s.id = ?1 ORDER BY e.seq"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(sandboxes(statement.query([id.to_string()])?)?.pop())
}

pub(crate) fn list(
    connection: &Connection,
    filter: SandboxFilter,
    after: Option<SandboxId>,
    limit: usize,
) -> rusqlite::Result<Vec<Row>> {
    let wanted = match filter {
        SandboxFilter::Present => "settled_at IS NULL AND pooled = 0",
        SandboxFilter::Settled => "settled_at IS NOT NULL AND pooled = 0",
        SandboxFilter::All => "pooled = 0",
        SandboxFilter::Pooled => "settled_at IS NULL AND pooled = 1",
        SandboxFilter::Leased => "settled_at IS NULL",
    };
    let sql = format!(
        "SELECT {COLUMNS} FROM (SELECT * FROM sandboxes WHERE id > ?1 AND {wanted} ORDER BY id LIMIT ?2) s
         {JOINED_TABLES}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let after = after.map(|id| id.to_string()).unwrap_or_default();
    sandboxes(statement.query((after, count(limit)))?)
}

pub(crate) fn pool_members(
    connection: &Connection,
    shape: &Shape,
    after: Option<SandboxId>,
    limit: usize,
) -> rusqlite::Result<Vec<Row>> {
    let sql = format!("SELECT {COLUMNS} FROM ({POOL_MEMBERS}) s {JOINED_TABLES}");
    let mut statement = connection.prepare_cached(&sql)?;
    let invalid = |error: serde_json::Error| rusqlite::Error::ToSqlConversionFailure(error.into());
    let shape = serde_json::to_string(shape).map_err(invalid)?;
    let after = after.map(|id| id.to_string()).unwrap_or_default();
    sandboxes(statement.query((after, count(limit), shape))?)
}

/// Joins each sandbox with its executions, which come as one row each.
fn sandboxes(mut rows: rusqlite::Rows<'_>) -> rusqlite::Result<Vec<Row>> {
    let mut found: Vec<Row> = Vec::new();
    let mut last = LastParsed::default();
    while let Some(row) = rows.next()? {
        let id = json::id(row, 0)?;
        if found.last().map(Row::id) != Some(id) {
            found.push(sandbox(row, id, &mut last)?);
        }
        if matches!(row.get_ref(6)?, rusqlite::types::ValueRef::Null) {
            continue;
        }
        match (found.last_mut(), json::read::<Execution>(row, 6)) {
            (Some(Row::Readable(stored)), Ok(execution)) => stored.sandbox.executions.push(execution),
            (Some(last @ Row::Readable(_)), Err(error)) => *last = unreadable(row, id, &error)?,
            (Some(Row::Unreadable(_)) | None, _) => {}
        }
    }
    Ok(found)
}

/// The spec and policy that were parsed last. Most sandboxes have the same as the one before.
#[derive(Default)]
struct LastParsed {
    spec: Option<(String, Arc<Spec>)>,
    policy: Option<(String, Arc<Policy>)>,
}

fn parse_or_reuse<T: DeserializeOwned>(
    row: &rusqlite::Row<'_>,
    column: usize,
    last: &mut Option<(String, Arc<T>)>,
) -> rusqlite::Result<Arc<T>> {
    let text = row.get_ref(column)?.as_str()?;
    match last {
        Some((same, value)) if same == text => Ok(value.clone()),
        _ => {
            let value = Arc::new(json::read(row, column)?);
            *last = Some((text.to_owned(), Arc::clone(&value)));
            Ok(value)
        }
    }
}

fn sandbox(row: &rusqlite::Row<'_>, id: SandboxId, last: &mut LastParsed) -> rusqlite::Result<Row> {
    let mut stored = || {
        let sandbox: Sandbox = json::read(row, 3)?;
        Ok(StoredSandbox {
            sandbox,
            spec: parse_or_reuse(row, 4, &mut last.spec)?,
            policy: parse_or_reuse(row, 5, &mut last.policy)?,
            version: Version(row.get(1)?),
        })
    };
    match stored() {
        Ok(stored) => Ok(Row::Readable(Box::new(stored))),
        Err(error) => unreadable(row, id, &error),
    }
}

fn unreadable(row: &rusqlite::Row<'_>, id: SandboxId, error: &rusqlite::Error) -> rusqlite::Result<Row> {
    Ok(Row::Unreadable(UnreadableRow {
        id,
        generation: Generation(unsigned(row.get(2)?)),
        version: Version(row.get(1)?),
        why: error.to_string(),
    }))
}

pub(crate) fn execution(
    connection: &Connection,
    id: ExecutionId,
) -> rusqlite::Result<Option<StoredExecution>> {
    let mut statement =
        connection.prepare_cached("SELECT sandbox_id, state, command FROM executions WHERE id = ?1")?;
    statement.query_row([id.to_string()], stored_execution).optional()
}

pub(crate) fn executions(
    connection: &Connection,
    sandbox: SandboxId,
) -> rusqlite::Result<Vec<StoredExecution>> {
    let mut statement = connection.prepare_cached(
        "SELECT sandbox_id, state, command FROM executions WHERE sandbox_id = ?1 ORDER BY seq",
    )?;
    let rows = statement.query_map([sandbox.to_string()], stored_execution)?;
    rows.collect()
}

fn stored_execution(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredExecution> {
    Ok(StoredExecution {
        sandbox: json::id(row, 0)?,
        execution: json::read(row, 1)?,
        command: Arc::new(json::read(row, 2)?),
        unreadable_env: None,
    })
}

pub(crate) fn due(
    connection: &Connection,
    now: Timestamp,
    limit: usize,
) -> rusqlite::Result<Vec<DueSandbox>> {
    let mut statement = connection.prepare_cached(DUE)?;
    let rows = statement.query_map((now.0, count(limit)), |row| {
        Ok(DueSandbox { id: json::id(row, 0)?, owner: json::id(row, 1)?, deadline: Timestamp(row.get(2)?) })
    })?;
    rows.collect()
}

pub(crate) fn next_deadline(connection: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    let mut statement = connection.prepare_cached(
        "SELECT next_deadline FROM sandboxes WHERE next_deadline IS NOT NULL ORDER BY next_deadline LIMIT 1",
    )?;
    statement.query_row([], |row| row.get(0).map(Timestamp)).optional()
}

/// An effect that cannot be read is left out: the deadline of its sandbox handles it.
pub(crate) fn effects_of_node(connection: &Connection, node: NodeId) -> rusqlite::Result<Vec<Effect>> {
    let mut statement =
        connection.prepare_cached("SELECT effect FROM effects WHERE node = ?1 ORDER BY sandbox_id, fence")?;
    let mut rows = statement.query([node.to_string()])?;
    let mut effects = Vec::new();
    while let Some(row) = rows.next()? {
        effects.extend(json::read(row, 0).ok());
    }
    Ok(effects)
}

/// Settled sandboxes are left out: no node has anything to do for them.
pub(crate) fn sandboxes_of_node(connection: &Connection, node: NodeId) -> rusqlite::Result<Vec<SandboxId>> {
    let mut statement = connection.prepare_cached(SANDBOXES_OF_NODE)?;
    let rows = statement.query_map([node.to_string()], |row| json::id(row, 0))?;
    rows.collect()
}

pub(crate) fn history(
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

pub(crate) fn last_record(connection: &Connection, of: SandboxId) -> rusqlite::Result<Option<HistoryRow>> {
    connection.prepare_cached(LAST_RECORD)?.query_row([of.to_string()], history_row).optional()
}

pub(crate) fn history_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<HistoryRow> {
    Ok(HistoryRow { seq: Seq(row.get(0)?), sandbox: json::id(row, 1)?, record: json::read(row, 2)? })
}

/// The last number is read before the rows: a change in between is reported twice rather than never.
pub(crate) fn changes(connection: &Connection, seen: Seq) -> rusqlite::Result<Changes> {
    let now = TotalsRow::read(connection)?.seq();
    if now == seen {
        return Ok(Changes { sandboxes: Vec::new(), up_to: seen });
    }
    let mut sandboxes = BTreeSet::new();
    // A deleted sandbox is only in the history; a change without a record is only in its row.
    for sql in [CHANGED_ROWS, CHANGED_RECORDS] {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([seen.0])?;
        while let Some(row) = rows.next()? {
            sandboxes.insert(json::id(row, 0)?);
        }
    }
    Ok(Changes { sandboxes: sandboxes.into_iter().collect(), up_to: now })
}

pub(crate) fn nodes(connection: &Connection) -> rusqlite::Result<Vec<RegisteredNode>> {
    let mut statement = connection
        .prepare_cached("SELECT id, host, boot_id, pid, start_ticks, heartbeat_at FROM nodes ORDER BY id")?;
    let rows = statement.query_map([], |row| {
        Ok(RegisteredNode {
            node: Node {
                id: json::id(row, 0)?,
                host: row.get(1)?,
                boot_id: row.get(2)?,
                pid: row.get(3)?,
                start_ticks: unsigned(row.get(4)?),
            },
            heartbeat_at: Timestamp(row.get(5)?),
        })
    })?;
    rows.collect()
}

pub(crate) fn unregistered_nodes(connection: &Connection) -> rusqlite::Result<Vec<NodeId>> {
    let mut statement = connection.prepare_cached(UNREGISTERED_NODES)?;
    let rows = statement.query_map([], |row| json::id(row, 0))?;
    rows.collect()
}

/// The limit of a page as an SQLite integer.
fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::connect;
    use crate::metrics::{HISTORY_UP_TO, POINTS_BETWEEN};
    use crate::quotas;
    use crate::schema::MIGRATIONS;

    #[test]
    fn a_repeated_statement_is_not_prepared_again() {
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
    fn equal_specs_in_a_row_are_parsed_once_and_shared() {
        let connection = Connection::open_in_memory().unwrap();
        let rows = r#"SELECT column1 FROM (VALUES ('"a"'), ('"a"'), ('"b"'))"#;

        let mut last = None;
        let mut statement = connection.prepare(rows).unwrap();
        let read: Vec<Arc<String>> = statement
            .query_map([], |row| parse_or_reuse(row, 0, &mut last))
            .unwrap()
            .map(Result::unwrap)
            .collect();

        assert_eq!(read.iter().map(|it| it.as_str()).collect::<Vec<_>>(), ["a", "a", "b"]);
        assert!(Arc::ptr_eq(&read[0], &read[1]));
    }

    #[test]
    fn frequent_reads_use_an_index() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&MIGRATIONS.concat()).unwrap();

        let other_modules = [POINTS_BETWEEN, HISTORY_UP_TO, quotas::COUNT_USES];
        for sql in [CHANGED_ROWS, CHANGED_RECORDS, DUE, LAST_RECORD, SANDBOXES_OF_NODE, POOL_MEMBERS]
            .into_iter()
            .chain(other_modules)
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
