//! Creates a sandbox: idempotency key, admission and the first row are one transaction.

use pinfold_lifecycle::{AdmissionLimits, SandboxId, Timestamp, admit};
use rusqlite::{Connection, OptionalExtension};

use crate::commit::{self, Columns};
use crate::errors::{Refusal, WriteError};
use crate::totals::{SandboxShare, TotalsRow, signed};
use crate::{executions, json, queue, quotas};
use pinfold_store::{Created, IdempotencyKey, NewSandbox, Version};

pub(crate) fn run(
    connection: &Connection,
    totals: &mut TotalsRow,
    new: &NewSandbox,
    limits: &AdmissionLimits,
) -> Result<Created, WriteError> {
    let sandbox = &new.transition.sandbox;
    if let Some(key) = &new.key
        && let Some(known) = sandbox_of_key(connection, key, sandbox.created_at)?
    {
        return Ok(Created::Existing(known));
    }
    refuse_existing_id(connection, sandbox.id)?;
    quotas::refuse_taken_name(connection, &new.spec)?;
    let demand = new.spec.demand();
    admit(&totals.to_totals(), &demand, limits).map_err(Refusal::AdmissionRefused)?;
    queue::admit(connection, totals, demand, limits, (&new.admission, sandbox.id, sandbox.created_at))?;

    let version = insert(connection, totals, new)?;
    if let Some(key) = &new.key {
        store_key(connection, key, &sandbox.id.to_string())?;
    }
    Ok(Created::New(version))
}

/// Writes the first row of an admitted sandbox.
pub(crate) fn insert(
    connection: &Connection,
    totals: &mut TotalsRow,
    new: &NewSandbox,
) -> Result<Version, WriteError> {
    let sandbox = &new.transition.sandbox;
    let demand = new.spec.demand();
    let share = SandboxShare::of(sandbox, demand);
    totals.replace_share(SandboxShare::default(), share);
    let version = commit::write_history(connection, totals, &new.transition)?;
    let columns = Columns::of(&new.transition)?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO sandboxes (id, version, generation, owner, next_deadline, settled_at, instances, attested, state,
         created_at, memory_mb, disk_mb, processes, pooled, pool_shape)
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
        columns.instances,
        columns.attested,
        &columns.state,
        sandbox.created_at.0,
        signed(demand.memory_mb),
        signed(demand.disk_mb),
        signed(demand.processes),
        columns.pooled,
        &columns.pool_shape,
    ))?;
    let (spec, policy) = (json::write(new.spec.as_ref())?, json::write(new.policy.as_ref())?);
    connection
        .prepare_cached("INSERT INTO specs (sandbox_id, spec, policy) VALUES (?1, ?2, ?3)")?
        .execute((&id, spec, policy))?;
    if columns.settled_at.is_none() {
        quotas::add_uses(connection, &id, &new.spec)?;
    }
    executions::write(connection, &id, &new.transition, &new.commands, version)?;
    commit::write_effects(connection, &id, &[], sandbox)?;
    Ok(version)
}

/// The sandbox that was created with this key. An expired key counts as unused.
pub(crate) fn sandbox_of_key(
    connection: &Connection,
    key: &IdempotencyKey,
    now: Timestamp,
) -> Result<Option<SandboxId>, WriteError> {
    let mut statement = connection.prepare_cached(
        "SELECT request, sandbox_id FROM idempotency_keys WHERE key = ?1 AND expires_at > ?2",
    )?;
    let found: Option<(String, SandboxId)> =
        statement.query_row((&key.key, now.0), |row| Ok((row.get(0)?, json::id(row, 1)?))).optional()?;
    match found {
        Some((request, _)) if request != key.request => {
            Err(Refusal::KeyReused { key: key.key.clone() }.into())
        }
        found => Ok(found.map(|(_, id)| id)),
    }
}

pub(crate) fn store_key(connection: &Connection, key: &IdempotencyKey, id: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO idempotency_keys (key, request, sandbox_id, expires_at) VALUES (?1, ?2, ?3, ?4)",
    )?;
    statement.execute((&key.key, &key.request, id, key.expires_at.0))?;
    Ok(())
}

pub(crate) fn refuse_existing_id(connection: &Connection, id: SandboxId) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM sandboxes WHERE id = ?1")?;
    if statement.exists([id.to_string()])? {
        return Err(Refusal::Exists { id }.into());
    }
    Ok(())
}
