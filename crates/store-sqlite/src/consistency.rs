//! Compares rows that must agree: totals with sandboxes, and columns, effects and quotas with states. Tests call it
//! after every crash, and `pinfold audit` on a live store.

use std::collections::BTreeSet;

use pinfold_lifecycle::{Demand, Effect, Execution, ExecutionState, QuotaKey, Sandbox, Spec};
use rusqlite::{Connection, OptionalExtension};

use crate::json;
use crate::totals::{SandboxShare, TotalsRow, is_attested, signed, unsigned};

/// One line for each contradiction. Rows that cannot be read are skipped.
pub(crate) fn inconsistencies(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    // One snapshot for all reads, while other processes write.
    let snapshot = connection.unchecked_transaction()?;
    let totals = TotalsRow::read(&snapshot)?;
    let mut found = Vec::new();
    let mut sum = SandboxShare::default();
    let mut statement = snapshot.prepare(
        "SELECT id, version, generation, owner, next_deadline, settled_at IS NOT NULL, instances, attested,
         memory_mb, disk_mb, processes, state, pooled, pool_shape FROM sandboxes",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let stored = StoredColumns::read(row)?;
        sum = sum.plus(stored.share());
        if stored.version > totals.seq {
            found.push(format!(
                "{}: version {} is larger than the last number of the totals",
                stored.id, stored.version
            ));
        }
        if let Ok(mut sandbox) = json::read::<Sandbox>(row, 11)
            && let Some(executions) = running_executions(&snapshot, &stored.id, &mut found)?
        {
            sandbox.executions = executions;
            stored.compare(&sandbox, &mut found);
            compare_effects(&snapshot, &stored.id, &sandbox, &mut found)?;
        }
        compare_quotas(&snapshot, &stored, &mut found)?;
    }
    let deleted = SandboxShare {
        created: totals.deleted,
        destroyed: totals.deleted,
        attested: totals.deleted_attested,
        ..SandboxShare::default()
    };
    if sum.plus(deleted) != totals.sum() {
        found.push(format!("the totals are {} and should be {}", totals.sum(), sum.plus(deleted)));
    }
    let last: i64 = snapshot.query_row("SELECT coalesce(max(seq), 0) FROM history", [], |row| row.get(0))?;
    if last > totals.seq {
        found.push(format!("record {last} is larger than the last number of the totals"));
    }
    Ok(found)
}

struct StoredColumns {
    id: String,
    version: i64,
    generation: i64,
    owner: String,
    next_deadline: Option<i64>,
    settled: bool,
    instances: i64,
    attested: bool,
    demand: Demand,
    pooled: bool,
    pool_shape: Option<String>,
}

impl StoredColumns {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            version: row.get(1)?,
            generation: row.get(2)?,
            owner: row.get(3)?,
            next_deadline: row.get(4)?,
            settled: row.get(5)?,
            instances: row.get(6)?,
            attested: row.get(7)?,
            demand: Demand {
                memory_mb: unsigned(row.get(8)?),
                disk_mb: unsigned(row.get(9)?),
                processes: unsigned(row.get(10)?),
            },
            pooled: row.get(12)?,
            pool_shape: row.get(13)?,
        })
    }

    fn share(&self) -> SandboxShare {
        let taken = if self.settled { Demand::default() } else { self.demand };
        SandboxShare {
            created: self.instances,
            destroyed: self.instances - i64::from(!self.settled && !self.pooled),
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
        agree(self.settled == sandbox.is_settled(), "the settled column");
        agree(self.attested == is_attested(sandbox), "the attested column");
        agree(self.pooled == sandbox.pooled.is_some(), "the pooled column");
        let pool_shape = sandbox.pool_shape().and_then(|shape| json::write(shape).ok());
        agree(self.pool_shape == pool_shape, "the pool shape");
        agree(self.share() == SandboxShare::of(sandbox, self.demand), "its share of the totals");
    }
}

/// The executions that have not ended. None: one of them cannot be read.
fn running_executions(
    connection: &Connection,
    id: &str,
    found: &mut Vec<String>,
) -> rusqlite::Result<Option<Vec<Execution>>> {
    let mut statement = connection
        .prepare_cached("SELECT ended, state FROM executions WHERE sandbox_id = ?1 ORDER BY seq")?;
    let mut rows = statement.query([id])?;
    let mut executions = Vec::new();
    while let Some(row) = rows.next()? {
        let ended: bool = row.get(0)?;
        let Ok(execution) = json::read::<Execution>(row, 1) else {
            return Ok(None);
        };
        if ended != matches!(execution.state, ExecutionState::Ended { .. }) {
            found.push(format!("{}: the ended column disagrees with the state", execution.id));
        }
        if !ended {
            executions.push(execution);
        }
    }
    Ok(Some(executions))
}

/// A sandbox uses exactly the quota keys of its spec until it is proven gone, and none after that.
fn compare_quotas(
    connection: &Connection,
    stored: &StoredColumns,
    found: &mut Vec<String>,
) -> rusqlite::Result<()> {
    let mut uses = connection.prepare_cached("SELECT key FROM quota_uses WHERE sandbox_id = ?1")?;
    let uses: BTreeSet<QuotaKey> =
        uses.query_map([&stored.id], |row| json::read(row, 0))?.collect::<rusqlite::Result<_>>()?;
    let mut spec = connection.prepare_cached("SELECT spec FROM specs WHERE sandbox_id = ?1")?;
    let spec = spec.query_row([&stored.id], |row| Ok(json::read::<Spec>(row, 0).ok())).optional()?;
    let wanted = match spec.flatten() {
        _ if stored.settled => BTreeSet::new(),
        Some(spec) => spec.quota_keys().into_iter().collect(),
        None => return Ok(()),
    };
    // A spec that was replaced as unreadable keeps its quota uses until the sandbox is proven gone.
    let mut lost = connection
        .prepare_cached("SELECT 1 FROM unreadable_parts WHERE sandbox_id = ?1 AND part = 'spec'")?;
    if !stored.settled && lost.exists([&stored.id])? {
        return Ok(());
    }
    if uses != wanted {
        found.push(format!(
            "{}: it uses the quotas {} and should use {}",
            stored.id,
            keys_text(&uses),
            keys_text(&wanted)
        ));
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
        "SELECT effect, node, deadline, fence FROM effects WHERE sandbox_id = ?1 ORDER BY fence",
    )?;
    let rows = statement.query_map([id], |row| {
        let effect: Effect = json::read(row, 0)?;
        let (node, deadline, fence): (String, i64, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let pending = effect.pending;
        let agree = node == pending.node.to_string()
            && deadline == pending.deadline.0
            && fence == signed(pending.fence.0);
        Ok((effect, agree))
    })?;
    let stored: Vec<(Effect, bool)> = rows.collect::<rusqlite::Result<_>>()?;
    let mut wanted = sandbox.effects();
    wanted.sort_by_key(|effect| effect.pending.fence);
    if !stored.iter().map(|(effect, _)| effect).eq(&wanted) || stored.iter().any(|(_, agree)| !agree) {
        found.push(format!("{id}: the effect rows disagree with the state"));
    }
    Ok(())
}

fn keys_text(keys: &BTreeSet<QuotaKey>) -> String {
    let texts = keys.iter().map(|key| json::write(key).unwrap_or_default());
    format!("[{}]", texts.collect::<Vec<_>>().join(", "))
}
