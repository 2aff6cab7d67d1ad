//! The warm pool. Its size is checked in the transaction that adds an instance, and a claim is decided in the
//! transaction that takes the instance out.

use pinfold_lifecycle::{AdmissionLimits, AdmissionRefusal, Shape, admit_to_pool};
use rusqlite::Connection;

use crate::errors::{Refusal, WriteError};
use crate::totals::TotalsRow;
use crate::{commit, create, json, queue, quotas};
use pinfold_store::{Created, NewSandbox, PoolClaim, Version};

const POOL_SIZE: &str = "SELECT count(*) FROM sandboxes WHERE pool_shape = ?1";

pub(crate) fn fill(
    connection: &Connection,
    totals: &mut TotalsRow,
    new: &NewSandbox,
    size: u64,
    limits: &AdmissionLimits,
) -> Result<Version, WriteError> {
    let sandbox = &new.transition.sandbox;
    create::refuse_existing_id(connection, sandbox.id)?;
    let shape = sandbox.pool_shape().ok_or(Refusal::NotPooled)?;
    if pool_size(connection, shape)? >= size {
        return Err(Refusal::PoolFull.into());
    }
    if queue::has_waiting_entries(connection)? {
        return Err(Refusal::AdmissionRefused(AdmissionRefusal::Queue { ahead: 1 }).into());
    }
    admit_to_pool(&totals.to_totals(), &new.spec.demand(), limits).map_err(Refusal::AdmissionRefused)?;
    create::insert(connection, totals, new)
}

fn pool_size(connection: &Connection, shape: &Shape) -> Result<u64, WriteError> {
    let mut statement = connection.prepare_cached(POOL_SIZE)?;
    let count: i64 = statement.query_row([json::write(shape)?], |row| row.get(0))?;
    Ok(crate::totals::unsigned(count))
}

/// The instance is counted in the totals already, with the same shape. Only quotas and the queue are left to check.
pub(crate) fn claim(
    connection: &Connection,
    totals: &mut TotalsRow,
    claim: &PoolClaim,
) -> Result<Created, WriteError> {
    let sandbox = &claim.change.transition.sandbox;
    if let Some(key) = &claim.key
        && let Some(known) = create::sandbox_of_key(connection, key, sandbox.created_at)?
    {
        return Ok(Created::Existing(known));
    }
    let id = sandbox.id.to_string();
    if sandbox.pooled.is_some() || !is_in_pool_of(connection, &id, &claim.spec.shape())? {
        return Err(Refusal::NotPooled.into());
    }
    quotas::refuse_taken_name(connection, &claim.spec)?;
    let demand = claim.spec.demand();
    let request = (&claim.admission, sandbox.id, sandbox.created_at);
    queue::admit(connection, totals, demand, &claim.limits, request)?;
    let version = commit::run(connection, totals, &claim.change)?;
    connection
        .prepare_cached("UPDATE sandboxes SET created_at = ?2 WHERE id = ?1")?
        .execute((&id, sandbox.created_at.0))?;
    connection.prepare_cached("UPDATE specs SET spec = ?2, policy = ?3 WHERE sandbox_id = ?1")?.execute((
        &id,
        json::write(claim.spec.as_ref())?,
        json::write(claim.policy.as_ref())?,
    ))?;
    quotas::add_uses(connection, &id, &claim.spec)?;
    if let Some(key) = &claim.key {
        create::store_key(connection, key, &id)?;
    }
    Ok(Created::New(version))
}

fn is_in_pool_of(connection: &Connection, id: &str, shape: &Shape) -> Result<bool, WriteError> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM sandboxes WHERE id = ?1 AND pool_shape = ?2")?;
    Ok(statement.exists((id, json::write(shape)?))?)
}
