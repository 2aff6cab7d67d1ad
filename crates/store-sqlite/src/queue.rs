//! The queue as rows. Every create is judged here together with the entries that wait.

use async_trait::async_trait;
use pinfold_lifecycle::{
    AdmissionDecision, AdmissionLimits, AdmissionRefusal, AllocatedResources, Demand, QueueId, QueuedRequest,
    Quota, SandboxId, Timestamp, WaitReason, could_ever_fit, decide_admissions,
};
use rusqlite::{Connection, OptionalExtension};

use crate::Sqlite;
use crate::errors::{Refusal, TransactionError, WriteError};
use crate::executor::{Executor, wrong_answer};
use crate::requests::{WriteDone, WriteRequest};
use crate::totals::{TotalsRow, unsigned};
use crate::{json, quotas};
use pinfold_store::{
    AdmissionTerms, EnqueueError, NewQueueEntry, Queue, QueueOutcome, QueuePosition, QueueRow, StoreError,
};

const ANY_WAITING: &str = "SELECT 1 FROM queue INDEXED BY queue_waiting WHERE ended_at IS NULL LIMIT 1";
const COLUMNS: &str = "entry, times_overtaken, ended_at, outcome";
/// An entry past its deadline no longer waits, even if its row does not say so yet.
const WAITING_ENTRIES: &str = "SELECT seq, id, times_overtaken, entry FROM queue INDEXED BY queue_waiting
    WHERE ended_at IS NULL AND deadline > ?1 ORDER BY seq";
/// What the claimable instances of the pool take. They give way to the queue, so it counts as free for the entries that
/// wait. An instance of the pool that is already stopping is not included: its resources are free when that is proven.
const POOL_USAGE: &str = "SELECT count(*), coalesce(sum(memory_mb), 0), coalesce(sum(disk_mb), 0),
    coalesce(sum(processes), 0) FROM sandboxes WHERE settled_at IS NULL AND pool_shape IS NOT NULL";

#[async_trait]
impl<E: Executor> Queue for Sqlite<E> {
    async fn enqueue(&self, new: NewQueueEntry, limits: AdmissionLimits) -> Result<(), EnqueueError> {
        self.executor.write(WriteRequest::Enqueue { new: Box::new(new), limits }).await?;
        Ok(())
    }

    async fn is_queue_empty(&self) -> Result<bool, StoreError> {
        self.executor.read_few("check whether the queue is empty", |rows| Ok(!has_waiting_entries(rows)?))
    }

    async fn queue_positions(
        &self,
        limits: AdmissionLimits,
        now: Timestamp,
    ) -> Result<Vec<QueuePosition>, StoreError> {
        self.executor.read("list the queue", |rows| positions(rows, &limits, now))
    }

    async fn queue_entry(&self, id: QueueId) -> Result<Option<QueueRow>, StoreError> {
        self.executor.read_few("find a queue entry", |rows| find(rows, id))
    }

    async fn end_queue_entry(
        &self,
        id: QueueId,
        outcome: QueueOutcome,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        match self.executor.write(WriteRequest::EndQueueEntry { id, outcome, now }).await? {
            WriteDone::QueueEntriesEnded(ended) => Ok(ended > 0),
            _ => Err(wrong_answer()),
        }
    }

    async fn expire_queue_entries(&self, now: Timestamp) -> Result<usize, StoreError> {
        match self.executor.write(WriteRequest::ExpireQueueEntries { now }).await? {
            WriteDone::QueueEntriesEnded(ended) => Ok(ended),
            _ => Err(wrong_answer()),
        }
    }
}

/// Entries past their deadline included.
pub(crate) fn has_waiting_entries(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached(ANY_WAITING)?.exists([])
}

/// An entry that waits.
struct WaitingEntry {
    seq: i64,
    id: String,
    row: QueueRow,
}

pub(crate) fn enqueue(
    connection: &Connection,
    new: &NewQueueEntry,
    limits: &AdmissionLimits,
) -> Result<(), WriteError> {
    could_ever_fit(new.demand, &new.quotas, limits).map_err(Refusal::NeverFits)?;
    let added = connection
        .prepare_cached(
            "INSERT OR IGNORE INTO queue (id, node, deadline, times_overtaken, entry) VALUES (?1, ?2, ?3, 0, ?4)",
        )?
        .execute((new.id.to_string(), new.owner_node.to_string(), new.deadline.0, json::write(new)?))?;
    if added == 0 {
        return Err(Refusal::QueueIdExists { id: new.id }.into());
    }
    Ok(())
}

/// Admits a sandbox, or says why not. Entries that wait longer and fit come first.
pub(crate) fn admit(
    connection: &Connection,
    totals: &TotalsRow,
    demand: Demand,
    limits: &AdmissionLimits,
    (admission, sandbox, now): (&AdmissionTerms, SandboxId, Timestamp),
) -> Result<(), WriteError> {
    for quota in &admission.quotas {
        quota.admit(quotas::uses(connection, &quota.key)?).map_err(Refusal::AdmissionRefused)?;
    }
    let mut before = waiting_entries(connection, now)?;
    let own = admission.queue_id.map(|id| id.to_string());
    if let (Some(id), Some(own)) = (admission.queue_id, &own) {
        let at = before.iter().position(|waiting| waiting.id == *own);
        before.truncate(at.ok_or(Refusal::NotQueued { id })?);
    }
    if !before.is_empty() {
        let overtaken = overtaken(connection, totals, demand, limits, (admission, &before))?;
        for waiting in overtaken.into_iter().filter_map(|at| before.get(at)) {
            connection
                .prepare_cached("UPDATE queue SET times_overtaken = times_overtaken + 1 WHERE seq = ?1")?
                .execute([waiting.seq])?;
        }
    }
    if let Some(id) = admission.queue_id {
        end_entry(connection, id, QueueOutcome::Admitted(sandbox), now)?;
    }
    Ok(())
}

/// Indexes of the earlier entries that this sandbox overtakes.
fn overtaken(
    connection: &Connection,
    totals: &TotalsRow,
    demand: Demand,
    limits: &AdmissionLimits,
    (admission, before): (&AdmissionTerms, &[WaitingEntry]),
) -> Result<Vec<usize>, WriteError> {
    let mut claimants: Vec<_> = before.iter().map(WaitingEntry::claimant).collect();
    claimants.push(QueuedRequest { demand, quotas: &admission.quotas, overtaken: 0 });
    let taken = taken(connection, totals, &claimants)?;
    match decide_admissions(taken, limits, &claimants).pop() {
        Some(AdmissionDecision::Fits { overtakes }) => Ok(overtakes),
        Some(AdmissionDecision::Waits(_)) | None => {
            Err(Refusal::AdmissionRefused(AdmissionRefusal::Queue { ahead: before.len() as u64 }).into())
        }
    }
}

impl WaitingEntry {
    fn claimant(&self) -> QueuedRequest<'_> {
        let NewQueueEntry { demand, quotas, .. } = &self.row.new;
        QueuedRequest { demand: *demand, quotas, overtaken: self.row.times_overtaken }
    }
}

fn taken(
    connection: &Connection,
    totals: &TotalsRow,
    all: &[QueuedRequest<'_>],
) -> Result<AllocatedResources, WriteError> {
    let mut taken = AllocatedResources { totals: totals.to_totals(), ..AllocatedResources::default() };
    if taken.totals.pooled > 0 {
        let (count, in_pool) = connection.prepare_cached(POOL_USAGE)?.query_row([], |row| {
            let (memory_mb, disk_mb, processes) =
                (unsigned(row.get(1)?), unsigned(row.get(2)?), unsigned(row.get(3)?));
            Ok((unsigned(row.get(0)?), Demand { memory_mb, disk_mb, processes }))
        })?;
        let totals = &mut taken.totals;
        totals.pooled = totals.pooled.saturating_sub(count);
        totals.taken.memory_mb = totals.taken.memory_mb.saturating_sub(in_pool.memory_mb);
        totals.taken.disk_mb = totals.taken.disk_mb.saturating_sub(in_pool.disk_mb);
        totals.taken.processes = totals.taken.processes.saturating_sub(in_pool.processes);
    }
    for Quota { key, .. } in all.iter().flat_map(|waiting| waiting.quotas) {
        if !taken.by_key.contains_key(key) {
            taken.by_key.insert(key.clone(), quotas::uses(connection, key)?);
        }
    }
    Ok(taken)
}

fn waiting_entries(connection: &Connection, now: Timestamp) -> rusqlite::Result<Vec<WaitingEntry>> {
    let mut statement = connection.prepare_cached(WAITING_ENTRIES)?;
    let rows = statement.query_map([now.0], |row| {
        let entry = QueueRow { times_overtaken: row.get(2)?, new: json::read(row, 3)?, outcome: None };
        Ok(WaitingEntry { seq: row.get(0)?, id: row.get(1)?, row: entry })
    })?;
    rows.collect()
}

fn positions(
    connection: &Connection,
    limits: &AdmissionLimits,
    now: Timestamp,
) -> rusqlite::Result<Vec<QueuePosition>> {
    // One snapshot for all reads, while other processes write.
    let snapshot = connection.unchecked_transaction()?;
    let waiting = waiting_entries(&snapshot, now)?;
    let claimants: Vec<_> = waiting.iter().map(WaitingEntry::claimant).collect();
    let taken = match taken(&snapshot, &TotalsRow::read(&snapshot)?, &claimants) {
        Ok(taken) => taken,
        Err(WriteError::Sqlite(error)) => return Err(error),
        Err(other) => return Err(rusqlite::Error::ToSqlConversionFailure(StoreError::from(other).into())),
    };
    let reasons = decide_admissions(taken, limits, &claimants).into_iter().map(|decision| match decision {
        AdmissionDecision::Fits { .. } => None,
        AdmissionDecision::Waits(reason) => Some(reason),
    });
    let reasons: Vec<Option<WaitReason>> = reasons.collect();
    let positions = waiting.into_iter().zip(reasons).zip(1..);
    Ok(positions
        .map(|((waiting, wait_reason), position)| QueuePosition { entry: waiting.row, position, wait_reason })
        .collect())
}

fn find(connection: &Connection, id: QueueId) -> rusqlite::Result<Option<QueueRow>> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM queue WHERE id = ?1"))?;
    let read = |row: &rusqlite::Row<'_>| {
        let end = match row.get::<_, Option<i64>>(2)? {
            Some(at) => Some((Timestamp(at), json::read(row, 3)?)),
            None => None,
        };
        Ok(QueueRow { new: json::read(row, 0)?, times_overtaken: row.get(1)?, outcome: end })
    };
    statement.query_row([id.to_string()], read).optional()
}

pub(crate) fn end_entry(
    connection: &Connection,
    id: QueueId,
    end: QueueOutcome,
    now: Timestamp,
) -> Result<usize, WriteError> {
    let mut statement = connection
        .prepare_cached("UPDATE queue SET ended_at = ?2, outcome = ?3 WHERE id = ?1 AND ended_at IS NULL")?;
    Ok(statement.execute((id.to_string(), now.0, json::write(&end)?))?)
}

pub(crate) fn expire_entries(connection: &Connection, now: Timestamp) -> Result<usize, WriteError> {
    let expired = connection
        .prepare_cached(
            "UPDATE queue SET ended_at = ?1, outcome = ?2 WHERE ended_at IS NULL AND deadline <= ?1",
        )?
        .execute((now.0, json::write(&QueueOutcome::Expired)?))?;
    let abandoned = connection
        .prepare_cached(
            "UPDATE queue SET ended_at = ?1, outcome = ?2
             WHERE ended_at IS NULL AND node NOT IN (SELECT id FROM nodes)",
        )?
        .execute((now.0, json::write(&QueueOutcome::Abandoned)?))?;
    Ok(expired + abandoned)
}

pub(crate) fn prune(connection: &Connection, before: Timestamp, limit: i64) -> Result<usize, WriteError> {
    let gone = connection
        .prepare_cached(
            "DELETE FROM queue WHERE seq IN (SELECT seq FROM queue WHERE ended_at < ?1 ORDER BY ended_at LIMIT ?2)",
        )?
        .execute((before.0, limit))?;
    Ok(gone)
}

impl From<WriteError> for EnqueueError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(Refusal::NeverFits(scarcity)) => Self::NeverFits(scarcity),
            WriteError::Refused(Refusal::QueueIdExists { id }) => Self::Exists { id },
            WriteError::Sqlite(error) => Self::Store(TransactionError::of("join the queue", error).into()),
            other => Self::Store(other.into()),
        }
    }
}
