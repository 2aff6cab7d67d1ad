//! Commits the next state of a sandbox: state, executions, effects, history and totals change together, or not at all.

use pinfold_lifecycle::{Demand, Lease, Life, Sandbox, Transition};
use rusqlite::{Connection, OptionalExtension, params};

use crate::errors::{Refusal, WriteError};
use crate::totals::{SandboxShare, TotalsRow, is_attested, signed, unsigned};
use crate::{executions, json, quotas, unreadable};
use pinfold_store::{Change, Version};

/// The columns beside the state, by which rows are found and summed without parsing it.
pub(crate) struct Columns {
    pub(crate) generation: i64,
    pub(crate) owner: String,
    pub(crate) next_deadline: Option<i64>,
    pub(crate) settled_at: Option<i64>,
    pub(crate) instances: i64,
    pub(crate) attested: bool,
    pub(crate) pooled: bool,
    pub(crate) pool_shape: Option<String>,
    pub(crate) state: String,
}

impl Columns {
    pub(crate) fn of(transition: &Transition) -> Result<Self, Refusal> {
        let sandbox = &transition.sandbox;
        Ok(Self {
            generation: signed(sandbox.generation().0),
            owner: sandbox.owner.to_string(),
            next_deadline: sandbox.next_deadline().map(|at| at.0),
            settled_at: settled_at(transition),
            instances: signed(sandbox.created_and_destroyed().0),
            attested: is_attested(sandbox),
            pooled: sandbox.pooled.is_some(),
            pool_shape: sandbox.pool_shape().map(json::write).transpose()?,
            state: json::write(&without_executions(sandbox))?,
        })
    }
}

/// Executions are rows of their own, so that a state does not grow with them.
pub(crate) fn without_executions(sandbox: &Sandbox) -> Sandbox {
    Sandbox {
        id: sandbox.id,
        owner: sandbox.owner,
        life: sandbox.life.clone(),
        lease: sandbox.lease.clone(),
        created_at: sandbox.created_at,
        start_by: sandbox.start_by,
        expires_at: sandbox.expires_at,
        pooled: sandbox.pooled.clone(),
        launches: sandbox.launches,
        strays: sandbox.strays,
        timeouts: sandbox.timeouts,
        rebooted: sandbox.rebooted,
        forget: sandbox.forget,
        end_reason: sandbox.end_reason.clone(),
        last_fence: sandbox.last_fence,
        grace_ms: sandbox.grace_ms,
        executions: Vec::new(),
    }
}

/// When the last instance was proven gone: later than the end if a stray was found after it.
fn settled_at(transition: &Transition) -> Option<i64> {
    let sandbox = &transition.sandbox;
    match (&sandbox.life, &sandbox.lease) {
        (Life::Ended { at, .. }, Lease::Free { .. }) => {
            let last = transition.records.last().map(|record| record.at);
            Some(last.map_or(*at, |last| last.max(*at)).0)
        }
        (Life::Wanted | Life::Ending { .. } | Life::Ended { .. }, _) => None,
    }
}

/// The row before the change.
struct StoredBefore {
    version: Version,
    generation: i64,
    owner: String,
    settled_at: Option<i64>,
    pooled: bool,
    pool_shape: Option<String>,
    share: SandboxShare,
    demand: Demand,
}

pub(crate) fn run(
    connection: &Connection,
    totals: &mut TotalsRow,
    change: &Change,
) -> Result<Version, WriteError> {
    let transition = &change.transition;
    let sandbox = &transition.sandbox;
    let id = sandbox.id.to_string();
    let before = before(connection, &id)?.ok_or(Refusal::Missing)?;
    let columns = Columns::of(transition)?;
    if before.version != change.version || columns.generation < before.generation {
        return Err(Refusal::Conflict { current: before.version }.into());
    }

    if unreadable::is_replaced_by(transition) {
        unreadable::copy_aside(connection, &id, before.version)?;
    }
    let share = SandboxShare::of(sandbox, before.demand);
    totals.replace_share(before.share, share);
    let version = write_history(connection, totals, transition)?;
    if sandbox.is_to_be_forgotten() {
        totals.row_deleted(share);
        connection.prepare_cached("DELETE FROM sandboxes WHERE id = ?1")?.execute([&id])?;
        return Ok(version);
    }
    let effects = stored_effects(connection, &id)?;
    update(connection, &id, &before, version, &columns)?;
    executions::write(connection, &id, transition, &change.commands, change.version)?;
    write_effects(connection, &id, &effects, sandbox)?;
    Ok(version)
}

fn before(connection: &Connection, id: &str) -> rusqlite::Result<Option<StoredBefore>> {
    let mut statement = connection.prepare_cached(
        "SELECT version, generation, instances, attested, settled_at, memory_mb, disk_mb, processes, owner, pooled,
         pool_shape FROM sandboxes WHERE id = ?1",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        let (created, settled_at): (i64, Option<i64>) = (row.get(2)?, row.get(4)?);
        let (settled, pooled): (bool, bool) = (settled_at.is_some(), row.get(9)?);
        let (memory_mb, disk_mb, processes): (i64, i64, i64) = (row.get(5)?, row.get(6)?, row.get(7)?);
        let taken = |amount| if settled { 0 } else { amount };
        Ok(StoredBefore {
            version: Version(row.get(0)?),
            generation: row.get(1)?,
            owner: row.get(8)?,
            settled_at,
            pooled,
            pool_shape: row.get(10)?,
            share: SandboxShare {
                created,
                destroyed: created - i64::from(!settled && !pooled),
                pooled: i64::from(pooled && !settled),
                attested: row.get(3)?,
                memory_mb: taken(memory_mb),
                disk_mb: taken(disk_mb),
                processes: taken(processes),
            },
            demand: Demand {
                memory_mb: unsigned(memory_mb),
                disk_mb: unsigned(disk_mb),
                processes: unsigned(processes),
            },
        })
    };
    statement.query_row([id], read).optional()
}

/// Owner, settled time and pool are updated apart, only if they differ: SQLite rewrites the indexes of every column
/// that an update names.
fn update(
    connection: &Connection,
    id: &str,
    before: &StoredBefore,
    version: Version,
    columns: &Columns,
) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached(
        "UPDATE sandboxes SET version = ?3, generation = ?4, next_deadline = ?5, instances = ?6, attested = ?7, state = ?8
         WHERE id = ?1 AND version = ?2",
    )?;
    let changed = statement.execute(params![
        id,
        before.version.0,
        version.0,
        columns.generation,
        columns.next_deadline,
        columns.instances,
        columns.attested,
        columns.state,
    ])?;
    // The version was read in this transaction, so the row is there.
    if changed != 1 {
        return Err(rusqlite::Error::StatementChangedRows(changed).into());
    }
    if before.owner != columns.owner || before.settled_at != columns.settled_at {
        connection
            .prepare_cached("UPDATE sandboxes SET owner = ?2, settled_at = ?3 WHERE id = ?1")?
            .execute((id, &columns.owner, columns.settled_at))?;
    }
    match (before.settled_at, columns.settled_at) {
        (None, Some(_)) => quotas::remove_uses(connection, id)?,
        (Some(_), None) => quotas::add_uses_again(connection, id)?,
        (None, None) | (Some(_), Some(_)) => {}
    }
    if before.pooled != columns.pooled || before.pool_shape != columns.pool_shape {
        connection
            .prepare_cached("UPDATE sandboxes SET pooled = ?2, pool_shape = ?3 WHERE id = ?1")?
            .execute((id, columns.pooled, &columns.pool_shape))?;
    }
    Ok(())
}

/// Writes the history records, and returns the version of the change.
pub(crate) fn write_history(
    connection: &Connection,
    totals: &mut TotalsRow,
    transition: &Transition,
) -> Result<Version, WriteError> {
    let before = totals.seq();
    if !transition.records.is_empty() {
        let id = transition.sandbox.id.to_string();
        let mut insert = connection
            .prepare_cached("INSERT INTO history (seq, sandbox_id, at, record) VALUES (?1, ?2, ?3, ?4)")?;
        for record in &transition.records {
            insert.execute((totals.next(), &id, record.at.0, json::write(record)?))?;
        }
    }
    Ok(totals.take_version(before))
}

fn stored_effects(connection: &Connection, id: &str) -> rusqlite::Result<Vec<(i64, String)>> {
    let mut statement =
        connection.prepare_cached("SELECT fence, effect FROM effects WHERE sandbox_id = ?1")?;
    let rows = statement.query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Makes the effect rows equal to the effects of the state, and writes only those that differ.
pub(crate) fn write_effects(
    connection: &Connection,
    id: &str,
    stored: &[(i64, String)],
    sandbox: &Sandbox,
) -> Result<(), WriteError> {
    let mut wanted = Vec::new();
    for effect in sandbox.effects() {
        let text = json::write(&effect)?;
        wanted.push((signed(effect.pending.fence.0), effect.pending, text));
    }
    let is_stored = |fence, text: &String| stored.iter().any(|(t, s)| *t == fence && s == text);
    for (fence, text) in stored {
        if !wanted.iter().any(|(t, _, w)| t == fence && w == text) {
            connection
                .prepare_cached("DELETE FROM effects WHERE sandbox_id = ?1 AND fence = ?2")?
                .execute((id, fence))?;
        }
    }
    for (fence, pending, text) in wanted.iter().filter(|(fence, _, text)| !is_stored(*fence, text)) {
        connection
            .prepare_cached(
                "INSERT INTO effects (sandbox_id, fence, node, deadline, effect) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((id, fence, pending.node.to_string(), pending.deadline.0, text))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pinfold_lifecycle::{Context, NodeId, Policy, SandboxId, Timestamp, create};

    use super::*;

    #[test]
    fn a_state_is_written_whole_except_its_executions() {
        let policy = Policy::default();
        let ctx = Context { now: Timestamp(1), node: NodeId(1), policy: &policy };
        let mut sandbox = create(SandboxId(1), ctx).sandbox;
        (sandbox.launches, sandbox.strays, sandbox.timeouts) = (2, 3, 4);
        (sandbox.rebooted, sandbox.forget) = (true, true);

        assert_eq!(without_executions(&sandbox), sandbox);
    }
}
