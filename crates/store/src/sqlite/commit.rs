//! The next state of a sandbox: state, executions, effects, history and sums change together, or not at all.

use pinfold_lifecycle::{Demand, Lease, Life, Sandbox, Transition};
use rusqlite::{Connection, OptionalExtension, params};

use super::failure::{Refused, WriteError};
use super::ledger::{Ledger, Share, is_attested, signed, unsigned};
use super::{executions, quotas, text, unreadable};
use crate::{Change, Version};

/// What is kept of a sandbox beside its state, to be found and summed without reading it.
pub(super) struct Columns {
    pub(super) generation: i64,
    pub(super) owner: String,
    pub(super) next_deadline: Option<i64>,
    pub(super) settled_at: Option<i64>,
    pub(super) bodies: i64,
    pub(super) attested: bool,
    pub(super) pooled: bool,
    pub(super) waits_in: Option<String>,
    pub(super) state: String,
}

impl Columns {
    pub(super) fn of(transition: &Transition) -> Result<Self, Refused> {
        let sandbox = &transition.sandbox;
        Ok(Self {
            generation: signed(sandbox.generation().0),
            owner: sandbox.owner.to_string(),
            next_deadline: sandbox.next_deadline().map(|at| at.0),
            settled_at: settled_at(transition),
            bodies: signed(sandbox.created_and_destroyed().0),
            attested: is_attested(sandbox),
            pooled: sandbox.pooled.is_some(),
            waits_in: sandbox.waits_in_pool_of().map(text::write).transpose()?,
            state: text::write(&without_executions(sandbox))?,
        })
    }
}

/// Executions are rows of their own, so that a state does not grow with them.
pub(super) fn without_executions(sandbox: &Sandbox) -> Sandbox {
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
        last_ticket: sandbox.last_ticket,
        grace_ms: sandbox.grace_ms,
        executions: Vec::new(),
    }
}

/// When the last body was proven gone; that is later than the end where a stray was found after it.
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

/// What the store has before the change.
struct Before {
    version: Version,
    generation: i64,
    owner: String,
    settled_at: Option<i64>,
    pooled: bool,
    waits_in: Option<String>,
    share: Share,
    demand: Demand,
}

pub(super) fn run(
    connection: &Connection,
    ledger: &mut Ledger,
    change: &Change,
) -> Result<Version, WriteError> {
    let transition = &change.transition;
    let sandbox = &transition.sandbox;
    let id = sandbox.id.to_string();
    let before = before(connection, &id)?.ok_or(Refused::Missing)?;
    let columns = Columns::of(transition)?;
    if before.version != change.version || columns.generation < before.generation {
        return Err(Refused::Conflict { current: before.version }.into());
    }

    if unreadable::is_replaced_by(transition) {
        unreadable::set_aside(connection, &id, before.version)?;
    }
    let share = Share::of(sandbox, before.demand);
    ledger.exchange(before.share, share);
    let version = write_history(connection, ledger, transition)?;
    if sandbox.is_to_be_forgotten() {
        ledger.forget(share);
        connection.prepare_cached("DELETE FROM sandboxes WHERE id = ?1")?.execute([&id])?;
        return Ok(version);
    }
    let effects = stored_effects(connection, &id)?;
    update(connection, &id, &before, version, &columns)?;
    executions::write(connection, &id, transition, &change.commands, change.version)?;
    write_effects(connection, &id, &effects, sandbox)?;
    Ok(version)
}

fn before(connection: &Connection, id: &str) -> rusqlite::Result<Option<Before>> {
    let mut statement = connection.prepare_cached(
        "SELECT version, generation, bodies, attested, settled_at, memory_mb, disk_mb, processes, owner, pooled,
         waits_in FROM sandboxes WHERE id = ?1",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        let (created, settled_at): (i64, Option<i64>) = (row.get(2)?, row.get(4)?);
        let (settled, pooled): (bool, bool) = (settled_at.is_some(), row.get(9)?);
        let (memory_mb, disk_mb, processes): (i64, i64, i64) = (row.get(5)?, row.get(6)?, row.get(7)?);
        let taken = |amount| if settled { 0 } else { amount };
        Ok(Before {
            version: Version(row.get(0)?),
            generation: row.get(1)?,
            owner: row.get(8)?,
            settled_at,
            pooled,
            waits_in: row.get(10)?,
            share: Share {
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

/// Owner, settling and pool are in indexes that SQLite rewrites whenever they are named, and they hardly ever
/// change.
fn update(
    connection: &Connection,
    id: &str,
    before: &Before,
    version: Version,
    columns: &Columns,
) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached(
        "UPDATE sandboxes SET version = ?3, generation = ?4, next_deadline = ?5, bodies = ?6, attested = ?7, state = ?8
         WHERE id = ?1 AND version = ?2",
    )?;
    let changed = statement.execute(params![
        id,
        before.version.0,
        version.0,
        columns.generation,
        columns.next_deadline,
        columns.bodies,
        columns.attested,
        columns.state,
    ])?;
    // The version was read in this very transaction, so this cannot miss.
    if changed != 1 {
        return Err(rusqlite::Error::StatementChangedRows(changed).into());
    }
    if before.owner != columns.owner || before.settled_at != columns.settled_at {
        connection
            .prepare_cached("UPDATE sandboxes SET owner = ?2, settled_at = ?3 WHERE id = ?1")?
            .execute((id, &columns.owner, columns.settled_at))?;
    }
    match (before.settled_at, columns.settled_at) {
        (None, Some(_)) => quotas::free(connection, id)?,
        (Some(_), None) => quotas::take_again(connection, id)?,
        (None, None) | (Some(_), Some(_)) => {}
    }
    if before.pooled != columns.pooled || before.waits_in != columns.waits_in {
        connection
            .prepare_cached("UPDATE sandboxes SET pooled = ?2, waits_in = ?3 WHERE id = ?1")?
            .execute((id, columns.pooled, &columns.waits_in))?;
    }
    Ok(())
}

/// Writes the records and gives the change its version.
pub(super) fn write_history(
    connection: &Connection,
    ledger: &mut Ledger,
    transition: &Transition,
) -> Result<Version, WriteError> {
    let before = ledger.seq();
    if !transition.records.is_empty() {
        let id = transition.sandbox.id.to_string();
        let mut insert = connection
            .prepare_cached("INSERT INTO history (seq, sandbox_id, at, record) VALUES (?1, ?2, ?3, ?4)")?;
        for record in &transition.records {
            insert.execute((ledger.next(), &id, record.at.0, text::write(record)?))?;
        }
    }
    Ok(ledger.version_after(before))
}

fn stored_effects(connection: &Connection, id: &str) -> rusqlite::Result<Vec<(i64, String)>> {
    let mut statement =
        connection.prepare_cached("SELECT ticket, effect FROM effects WHERE sandbox_id = ?1")?;
    let rows = statement.query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Makes the rows of effects what the state says, touching only those that differ.
pub(super) fn write_effects(
    connection: &Connection,
    id: &str,
    stored: &[(i64, String)],
    sandbox: &Sandbox,
) -> Result<(), WriteError> {
    let mut wanted = Vec::new();
    for effect in sandbox.effects() {
        let text = text::write(&effect)?;
        wanted.push((signed(effect.duty.ticket.0), effect.duty, text));
    }
    let is_stored = |ticket, text: &String| stored.iter().any(|(t, s)| *t == ticket && s == text);
    for (ticket, text) in stored {
        if !wanted.iter().any(|(t, _, w)| t == ticket && w == text) {
            connection
                .prepare_cached("DELETE FROM effects WHERE sandbox_id = ?1 AND ticket = ?2")?
                .execute((id, ticket))?;
        }
    }
    for (ticket, duty, text) in wanted.iter().filter(|(ticket, _, text)| !is_stored(*ticket, text)) {
        connection
            .prepare_cached(
                "INSERT INTO effects (sandbox_id, ticket, node, deadline, effect) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((id, ticket, duty.by.to_string(), duty.deadline.0, text))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pinfold_lifecycle::{Context, NodeId, Policy, SandboxId, Timestamp, create};

    use super::*;

    #[test]
    fn a_state_is_written_whole_but_for_its_executions() {
        let policy = Policy::default();
        let ctx = Context { now: Timestamp(1), node: NodeId(1), policy: &policy };
        let mut sandbox = create(SandboxId(1), ctx).sandbox;
        (sandbox.launches, sandbox.strays, sandbox.timeouts) = (2, 3, 4);
        (sandbox.rebooted, sandbox.forget) = (true, true);

        assert_eq!(without_executions(&sandbox), sandbox);
    }
}
