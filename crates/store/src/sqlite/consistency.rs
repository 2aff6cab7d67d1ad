//! Whether the rows agree with each other: sums with sandboxes, effects and columns with states. Tests ask here
//! after every crash; the program itself relies on it.

use std::collections::BTreeSet;

use pinfold_lifecycle::{Demand, Effect, Execution, ExecutionState, QuotaKey, Sandbox, Spec};
use rusqlite::{Connection, OptionalExtension};

use super::ledger::{Ledger, Share, is_attested, signed, unsigned};
use super::text;

/// Every disagreement, in words. What cannot be read is compared with nothing.
pub(super) fn disagreements(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    // One moment for all of it, also while others write.
    let moment = connection.unchecked_transaction()?;
    let ledger = Ledger::read(&moment)?;
    let mut found = Vec::new();
    let mut sum = Share::default();
    let mut statement = moment.prepare(
        "SELECT id, version, generation, owner, next_deadline, settled_at IS NOT NULL, bodies, attested,
         memory_mb, disk_mb, processes, state, pooled, waits_in FROM sandboxes",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let stored = Columns::read(row)?;
        sum = sum.plus(stored.share());
        if stored.version > ledger.seq {
            found.push(format!("{}: version {} is ahead of the ledger", stored.id, stored.version));
        }
        if let Ok(mut sandbox) = text::read::<Sandbox>(row, 11)
            && let Some(executions) = going_on(&moment, &stored.id, &mut found)?
        {
            sandbox.executions = executions;
            stored.compare(&sandbox, &mut found);
            compare_effects(&moment, &stored.id, &sandbox, &mut found)?;
        }
        compare_quotas(&moment, &stored, &mut found)?;
    }
    let gone = Share {
        created: ledger.gone,
        destroyed: ledger.gone,
        attested: ledger.gone_attested,
        ..Share::default()
    };
    if sum.plus(gone) != ledger.sum() {
        found.push(format!("the sums are {:?} and should be {:?}", ledger.sum(), sum.plus(gone)));
    }
    let last: i64 = moment.query_row("SELECT coalesce(max(seq), 0) FROM history", [], |row| row.get(0))?;
    if last > ledger.seq {
        found.push(format!("record {last} is ahead of the ledger"));
    }
    Ok(found)
}

struct Columns {
    id: String,
    version: i64,
    generation: i64,
    owner: String,
    next_deadline: Option<i64>,
    settled: bool,
    bodies: i64,
    attested: bool,
    demand: Demand,
    pooled: bool,
    waits_in: Option<String>,
}

impl Columns {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            version: row.get(1)?,
            generation: row.get(2)?,
            owner: row.get(3)?,
            next_deadline: row.get(4)?,
            settled: row.get(5)?,
            bodies: row.get(6)?,
            attested: row.get(7)?,
            demand: Demand {
                memory_mb: unsigned(row.get(8)?),
                disk_mb: unsigned(row.get(9)?),
                processes: unsigned(row.get(10)?),
            },
            pooled: row.get(12)?,
            waits_in: row.get(13)?,
        })
    }

    fn share(&self) -> Share {
        let taken = if self.settled { Demand::default() } else { self.demand };
        Share {
            created: self.bodies,
            destroyed: self.bodies - i64::from(!self.settled && !self.pooled),
            pooled: i64::from(self.pooled && !self.settled),
            attested: i64::from(self.attested),
            memory_mb: signed(taken.memory_mb),
            disk_mb: signed(taken.disk_mb),
            processes: signed(taken.processes),
        }
    }

    fn compare(&self, sandbox: &Sandbox, found: &mut Vec<String>) {
        let mut agree = |agrees: bool, what: &str| {
            if !agrees {
                found.push(format!("{}: {what} disagrees with the state", self.id));
            }
        };
        agree(self.generation == signed(sandbox.generation().0), "the generation");
        agree(self.owner == sandbox.owner.to_string(), "the owner");
        agree(self.next_deadline == sandbox.next_deadline().map(|at| at.0), "the deadline");
        agree(self.settled == sandbox.is_settled(), "the mark of being settled");
        agree(self.attested == is_attested(sandbox), "the mark of being attested");
        agree(self.pooled == sandbox.pooled.is_some(), "the mark of being pooled");
        let waits_in = sandbox.waits_in_pool_of().and_then(|shape| text::write(shape).ok());
        agree(self.waits_in == waits_in, "the shape it waits in the pool for");
        agree(self.share() == Share::of(sandbox, self.demand), "its share of the sums");
    }
}

/// None: one of them cannot be read.
fn going_on(
    connection: &Connection,
    id: &str,
    found: &mut Vec<String>,
) -> rusqlite::Result<Option<Vec<Execution>>> {
    let mut statement =
        connection.prepare_cached("SELECT ended, state FROM executions WHERE sandbox_id = ?1 ORDER BY n")?;
    let mut rows = statement.query([id])?;
    let mut executions = Vec::new();
    while let Some(row) = rows.next()? {
        let ended: bool = row.get(0)?;
        let Ok(execution) = text::read::<Execution>(row, 1) else {
            return Ok(None);
        };
        if ended != matches!(execution.state, ExecutionState::Ended { .. }) {
            found.push(format!("{}: the mark of its end disagrees with its state", execution.id));
        }
        if !ended {
            executions.push(execution);
        }
    }
    Ok(Some(executions))
}

/// It is counted by exactly the keys of its spec as long as it is not proven gone, and by none after.
fn compare_quotas(
    connection: &Connection,
    stored: &Columns,
    found: &mut Vec<String>,
) -> rusqlite::Result<()> {
    let mut uses = connection.prepare_cached("SELECT key FROM quota_uses WHERE sandbox_id = ?1")?;
    let uses: BTreeSet<QuotaKey> =
        uses.query_map([&stored.id], |row| text::read(row, 0))?.collect::<rusqlite::Result<_>>()?;
    let mut spec = connection.prepare_cached("SELECT spec FROM specs WHERE sandbox_id = ?1")?;
    let spec = spec.query_row([&stored.id], |row| Ok(text::read::<Spec>(row, 0).ok())).optional()?;
    let wanted = match spec.flatten() {
        _ if stored.settled => BTreeSet::new(),
        Some(spec) => spec.quota_keys().into_iter().collect(),
        None => return Ok(()),
    };
    // One that was lost takes its places until it is proven gone, although its spec does not say so any more.
    let mut lost =
        connection.prepare_cached("SELECT 1 FROM unreadable WHERE sandbox_id = ?1 AND was = 'spec'")?;
    if !stored.settled && lost.exists([&stored.id])? {
        return Ok(());
    }
    if uses != wanted {
        found.push(format!("{}: it is counted by {uses:?} and should be by {wanted:?}", stored.id));
    }
    Ok(())
}

fn compare_effects(
    connection: &Connection,
    id: &str,
    sandbox: &Sandbox,
    found: &mut Vec<String>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "SELECT effect, node, deadline, ticket FROM effects WHERE sandbox_id = ?1 ORDER BY ticket",
    )?;
    let rows = statement.query_map([id], |row| {
        let effect: Effect = text::read(row, 0)?;
        let (node, deadline, ticket): (String, i64, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let duty = effect.duty;
        let agree =
            node == duty.by.to_string() && deadline == duty.deadline.0 && ticket == signed(duty.ticket.0);
        Ok((effect, agree))
    })?;
    let stored: Vec<(Effect, bool)> = rows.collect::<rusqlite::Result<_>>()?;
    let mut wanted = sandbox.effects();
    wanted.sort_by_key(|effect| effect.duty.ticket);
    if !stored.iter().map(|(effect, _)| effect).eq(&wanted) || stored.iter().any(|(_, agree)| !agree) {
        found.push(format!("{id}: the rows of its effects disagree with its state"));
    }
    Ok(())
}
