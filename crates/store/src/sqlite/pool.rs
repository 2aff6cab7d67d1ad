//! Bodies that wait in the pool: how many there may be is decided in the transaction that adds one, and who is
//! given one in the transaction that takes it out.

use pinfold_lifecycle::{AdmissionLimits, Scarcity, Shape, admit_to_pool};
use rusqlite::Connection;

use super::failure::{Refused, WriteError};
use super::ledger::Ledger;
use super::{commit, create, queue, quotas, text};
use crate::{Claim, Created, NewSandbox, Version};

const WAITING: &str = "SELECT count(*) FROM sandboxes WHERE waits_in = ?1";

pub(super) fn fill(
    connection: &Connection,
    ledger: &mut Ledger,
    new: &NewSandbox,
    size: u64,
    limits: &AdmissionLimits,
) -> Result<Version, WriteError> {
    let sandbox = &new.transition.sandbox;
    create::refuse_a_second_one(connection, sandbox.id)?;
    let shape = sandbox.waits_in_pool_of().ok_or(Refused::NotPooled)?;
    if waiting(connection, shape)? >= size {
        return Err(Refused::PoolFull.into());
    }
    if queue::anybody_waits(connection)? {
        return Err(Refused::Scarce(Scarcity::Queue { ahead: 1 }).into());
    }
    admit_to_pool(&ledger.totals(), &new.spec.demand(), limits).map_err(Refused::Scarce)?;
    create::insert(connection, ledger, new)
}

fn waiting(connection: &Connection, shape: &Shape) -> Result<u64, WriteError> {
    let mut statement = connection.prepare_cached(WAITING)?;
    let count: i64 = statement.query_row([text::write(shape)?], |row| row.get(0))?;
    Ok(super::ledger::unsigned(count))
}

/// Its place is taken already, and by a body of the same shape. So only quotas and those who wait have a say.
pub(super) fn claim(
    connection: &Connection,
    ledger: &mut Ledger,
    claim: &Claim,
) -> Result<Created, WriteError> {
    let sandbox = &claim.change.transition.sandbox;
    if let Some(key) = &claim.key
        && let Some(known) = create::known_by(connection, key, sandbox.created_at)?
    {
        return Ok(Created::Known(known));
    }
    let id = sandbox.id.to_string();
    if sandbox.pooled.is_some() || !is_in_pool_of(connection, &id, &claim.spec.shape())? {
        return Err(Refused::NotPooled.into());
    }
    let demand = claim.spec.demand();
    let who = (&claim.bid, sandbox.id, sandbox.created_at);
    queue::let_in(connection, ledger, demand, &claim.limits, who)?;
    let version = commit::run(connection, ledger, &claim.change)?;
    connection
        .prepare_cached("UPDATE sandboxes SET created_at = ?2 WHERE id = ?1")?
        .execute((&id, sandbox.created_at.0))?;
    connection.prepare_cached("UPDATE specs SET spec = ?2, policy = ?3 WHERE sandbox_id = ?1")?.execute((
        &id,
        text::write(claim.spec.as_ref())?,
        text::write(claim.policy.as_ref())?,
    ))?;
    quotas::take(connection, &id, &claim.spec)?;
    if let Some(key) = &claim.key {
        create::remember(connection, key, &id)?;
    }
    Ok(Created::New(version))
}

fn is_in_pool_of(connection: &Connection, id: &str, shape: &Shape) -> Result<bool, WriteError> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM sandboxes WHERE id = ?1 AND waits_in = ?2")?;
    Ok(statement.exists((id, text::write(shape)?))?)
}
