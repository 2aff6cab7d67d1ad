//! A new sandbox: its key, the room for it and its first row are one transaction.

use pinfold_lifecycle::{AdmissionLimits, SandboxId, Timestamp, admit};
use rusqlite::{Connection, OptionalExtension};

use super::commit::{self, Columns};
use super::failure::{Refused, WriteError};
use super::ledger::{Ledger, Share, signed};
use super::{executions, queue, quotas, text};
use crate::{Created, IdempotencyKey, NewSandbox, Version};

pub(super) fn run(
    connection: &Connection,
    ledger: &mut Ledger,
    new: &NewSandbox,
    limits: &AdmissionLimits,
) -> Result<Created, WriteError> {
    let sandbox = &new.transition.sandbox;
    if let Some(key) = &new.key
        && let Some(known) = known_by(connection, key, sandbox.created_at)?
    {
        return Ok(Created::Known(known));
    }
    refuse_a_second_one(connection, sandbox.id)?;
    let demand = new.spec.demand();
    admit(&ledger.totals(), &demand, limits).map_err(Refused::Scarce)?;
    queue::let_in(connection, ledger, demand, limits, (&new.bid, sandbox.id, sandbox.created_at))?;

    let version = insert(connection, ledger, new)?;
    if let Some(key) = &new.key {
        remember(connection, key, &sandbox.id.to_string())?;
    }
    Ok(Created::New(version))
}

/// Writes the first row of what is admitted.
pub(super) fn insert(
    connection: &Connection,
    ledger: &mut Ledger,
    new: &NewSandbox,
) -> Result<Version, WriteError> {
    let sandbox = &new.transition.sandbox;
    let demand = new.spec.demand();
    let share = Share::of(sandbox, demand);
    ledger.exchange(Share::default(), share);
    let version = commit::write_history(connection, ledger, &new.transition)?;
    let columns = Columns::of(&new.transition)?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO sandboxes (id, version, generation, owner, next_deadline, settled_at, bodies, attested, state,
         created_at, memory_mb, disk_mb, processes, pooled, waits_in)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    )?;
    let id = sandbox.id.to_string();
    insert.execute((
        &id,
        version.0,
        columns.generation,
        &columns.owner,
        columns.next_deadline,
        columns.settled_at,
        columns.bodies,
        columns.attested,
        &columns.state,
        sandbox.created_at.0,
        signed(demand.memory_mb),
        signed(demand.disk_mb),
        signed(demand.processes),
        columns.pooled,
        &columns.waits_in,
    ))?;
    let (spec, policy) = (text::write(new.spec.as_ref())?, text::write(new.policy.as_ref())?);
    connection
        .prepare_cached("INSERT INTO specs (sandbox_id, spec, policy) VALUES (?1, ?2, ?3)")?
        .execute((&id, spec, policy))?;
    if columns.settled_at.is_none() {
        quotas::take(connection, &id, &new.spec)?;
    }
    executions::write(connection, &id, &new.transition, &new.commands, version)?;
    commit::write_effects(connection, &id, &[], sandbox)?;
    Ok(version)
}

/// The sandbox that this key has made. A key that has expired is as good as new.
pub(super) fn known_by(
    connection: &Connection,
    key: &IdempotencyKey,
    now: Timestamp,
) -> Result<Option<SandboxId>, WriteError> {
    let mut statement = connection.prepare_cached(
        "SELECT request, sandbox_id FROM idempotency_keys WHERE key = ?1 AND expires_at > ?2",
    )?;
    let found: Option<(String, SandboxId)> =
        statement.query_row((&key.key, now.0), |row| Ok((row.get(0)?, text::id(row, 1)?))).optional()?;
    match found {
        Some((request, _)) if request != key.request => {
            Err(Refused::KeyReused { key: key.key.clone() }.into())
        }
        found => Ok(found.map(|(_, id)| id)),
    }
}

pub(super) fn remember(connection: &Connection, key: &IdempotencyKey, id: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO idempotency_keys (key, request, sandbox_id, expires_at) VALUES (?1, ?2, ?3, ?4)",
    )?;
    statement.execute((&key.key, &key.request, id, key.expires_at.0))?;
    Ok(())
}

pub(super) fn refuse_a_second_one(connection: &Connection, id: SandboxId) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM sandboxes WHERE id = ?1")?;
    if statement.exists([id.to_string()])? {
        return Err(Refused::Exists { id }.into());
    }
    Ok(())
}
