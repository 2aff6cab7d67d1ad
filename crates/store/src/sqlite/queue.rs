//! Those who wait for room, as rows. Whoever is to be let in is judged here as one of them.

use async_trait::async_trait;
use pinfold_lifecycle::{
    AdmissionLimits, Claimant, Demand, Held, PlaceId, Quota, SandboxId, Scarcity, Taken, Timestamp, Turnout,
    could_ever_fit, turnout,
};
use rusqlite::{Connection, OptionalExtension};

use super::failure::{Failure, Refused, WriteError};
use super::ledger::{Ledger, unsigned};
use super::runs::{Runs, mixed_up};
use super::write::{Write, Wrote};
use super::{quotas, text};
use crate::{Bid, JoinError, NewPlace, Place, PlaceEnd, Queue, Standing, StoreError};

const ANYBODY: &str = "SELECT 1 FROM queue INDEXED BY queue_waiting WHERE ended_at IS NULL LIMIT 1";
const COLUMNS: &str = "place, passed, ended_at, ended";
/// Who is overdue does not wait any more, whether that was written or not.
const WAITING: &str = "SELECT seq, id, passed, place FROM queue INDEXED BY queue_waiting
    WHERE ended_at IS NULL AND until > ?1 ORDER BY seq";
/// What waits in the pool gives way, so its places count as free for those who wait. What of it ends already is free
/// when that is proven: it may take long.
const IN_POOL: &str = "SELECT count(*), coalesce(sum(memory_mb), 0), coalesce(sum(disk_mb), 0),
    coalesce(sum(processes), 0) FROM sandboxes WHERE settled_at IS NULL AND waits_in IS NOT NULL";

#[async_trait]
impl<R: Runs> Queue for R {
    async fn join(&self, new: NewPlace, limits: AdmissionLimits) -> Result<(), JoinError> {
        self.write(Write::Join { new: Box::new(new), limits }).await?;
        Ok(())
    }

    async fn is_queue_empty(&self) -> Result<bool, StoreError> {
        self.read_little("see whether anybody waits", |rows| Ok(!anybody_waits(rows)?))
    }

    async fn line(&self, limits: AdmissionLimits, now: Timestamp) -> Result<Vec<Standing>, StoreError> {
        self.read("see who waits for room", |rows| line(rows, &limits, now))
    }

    async fn place(&self, id: PlaceId) -> Result<Option<Place>, StoreError> {
        self.read_little("find a place in the queue", |rows| find(rows, id))
    }

    async fn end_place(&self, id: PlaceId, end: PlaceEnd, now: Timestamp) -> Result<bool, StoreError> {
        match self.write(Write::EndPlace { id, end, now }).await? {
            Wrote::PlacesEnded(ended) => Ok(ended > 0),
            _ => Err(mixed_up()),
        }
    }

    async fn end_overdue(&self, now: Timestamp) -> Result<usize, StoreError> {
        match self.write(Write::EndOverdue { now }).await? {
            Wrote::PlacesEnded(ended) => Ok(ended),
            _ => Err(mixed_up()),
        }
    }
}

/// Or waited until a moment ago.
pub(super) fn anybody_waits(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached(ANYBODY)?.exists([])
}

/// One who waits.
struct Waiting {
    seq: i64,
    id: String,
    place: Place,
}

pub(super) fn join(
    connection: &Connection,
    new: &NewPlace,
    limits: &AdmissionLimits,
) -> Result<(), WriteError> {
    could_ever_fit(new.demand, &new.quotas, limits).map_err(Refused::NeverFits)?;
    let added = connection
        .prepare_cached(
            "INSERT OR IGNORE INTO queue (id, node, until, passed, place) VALUES (?1, ?2, ?3, 0, ?4)",
        )?
        .execute((new.id.to_string(), new.node.to_string(), new.until.0, text::write(new)?))?;
    if added == 0 {
        return Err(Refused::PlaceExists { id: new.id }.into());
    }
    Ok(())
}

/// Lets somebody in, or says why not. Nobody is let in before those who wait longer and fit.
pub(super) fn let_in(
    connection: &Connection,
    ledger: &Ledger,
    demand: Demand,
    limits: &AdmissionLimits,
    (bid, sandbox, now): (&Bid, SandboxId, Timestamp),
) -> Result<(), WriteError> {
    for quota in &bid.quotas {
        quota.admit(quotas::taken(connection, &quota.key)?).map_err(Refused::Scarce)?;
    }
    let mut before = waiting(connection, now)?;
    let own = bid.place.map(|place| place.to_string());
    if let (Some(place), Some(own)) = (bid.place, &own) {
        let at = before.iter().position(|one| one.id == *own);
        before.truncate(at.ok_or(Refused::NotWaiting { place })?);
    }
    if !before.is_empty() {
        let overtaken = overtaken(connection, ledger, demand, limits, (bid, &before))?;
        for one in overtaken.into_iter().filter_map(|at| before.get(at)) {
            connection
                .prepare_cached("UPDATE queue SET passed = passed + 1 WHERE seq = ?1")?
                .execute([one.seq])?;
        }
    }
    if let Some(place) = bid.place {
        end(connection, place, PlaceEnd::Admitted(sandbox), now)?;
    }
    Ok(())
}

/// Which of those who wait before it.
fn overtaken(
    connection: &Connection,
    ledger: &Ledger,
    demand: Demand,
    limits: &AdmissionLimits,
    (bid, before): (&Bid, &[Waiting]),
) -> Result<Vec<usize>, WriteError> {
    let mut claimants: Vec<_> = before.iter().map(Waiting::claimant).collect();
    claimants.push(Claimant { demand, quotas: &bid.quotas, passed: 0 });
    let taken = taken(connection, ledger, &claimants)?;
    match turnout(taken, limits, &claimants).pop() {
        Some(Turnout::Fits { overtakes }) => Ok(overtakes),
        Some(Turnout::Waits(_)) | None => {
            Err(Refused::Scarce(Scarcity::Queue { ahead: before.len() as u64 }).into())
        }
    }
}

impl Waiting {
    fn claimant(&self) -> Claimant<'_> {
        let NewPlace { demand, quotas, .. } = &self.place.new;
        Claimant { demand: *demand, quotas, passed: self.place.passed }
    }
}

fn taken(connection: &Connection, ledger: &Ledger, all: &[Claimant<'_>]) -> Result<Taken, WriteError> {
    let mut taken = Taken { totals: ledger.totals(), ..Taken::default() };
    if taken.totals.pooled > 0 {
        let (count, in_pool) = connection.prepare_cached(IN_POOL)?.query_row([], |row| {
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
    for Quota { key, .. } in all.iter().flat_map(|one| one.quotas) {
        if !taken.by_key.contains_key(key) {
            taken.by_key.insert(key.clone(), quotas::taken(connection, key)?);
        }
    }
    Ok(taken)
}

fn waiting(connection: &Connection, now: Timestamp) -> rusqlite::Result<Vec<Waiting>> {
    let mut statement = connection.prepare_cached(WAITING)?;
    let rows = statement.query_map([now.0], |row| {
        let place = Place { passed: row.get(2)?, new: text::read(row, 3)?, end: None };
        Ok(Waiting { seq: row.get(0)?, id: row.get(1)?, place })
    })?;
    rows.collect()
}

fn line(
    connection: &Connection,
    limits: &AdmissionLimits,
    now: Timestamp,
) -> rusqlite::Result<Vec<Standing>> {
    // One moment for all of it, also while others write.
    let moment = connection.unchecked_transaction()?;
    let waiting = waiting(&moment, now)?;
    let claimants: Vec<_> = waiting.iter().map(Waiting::claimant).collect();
    let taken = match taken(&moment, &Ledger::read(&moment)?, &claimants) {
        Ok(taken) => taken,
        Err(WriteError::Sqlite(error)) => return Err(error),
        Err(other) => return Err(rusqlite::Error::ToSqlConversionFailure(StoreError::from(other).into())),
    };
    let held = turnout(taken, limits, &claimants).into_iter().map(|turnout| match turnout {
        Turnout::Fits { .. } => None,
        Turnout::Waits(held) => Some(held),
    });
    let held: Vec<Option<Held>> = held.collect();
    let positions = waiting.into_iter().zip(held).zip(1..);
    Ok(positions.map(|((one, held), position)| Standing { place: one.place, position, held }).collect())
}

fn find(connection: &Connection, id: PlaceId) -> rusqlite::Result<Option<Place>> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM queue WHERE id = ?1"))?;
    let read = |row: &rusqlite::Row<'_>| {
        let end = match row.get::<_, Option<i64>>(2)? {
            Some(at) => Some((Timestamp(at), text::read(row, 3)?)),
            None => None,
        };
        Ok(Place { new: text::read(row, 0)?, passed: row.get(1)?, end })
    };
    statement.query_row([id.to_string()], read).optional()
}

pub(super) fn end(
    connection: &Connection,
    id: PlaceId,
    end: PlaceEnd,
    now: Timestamp,
) -> Result<usize, WriteError> {
    let mut statement = connection
        .prepare_cached("UPDATE queue SET ended_at = ?2, ended = ?3 WHERE id = ?1 AND ended_at IS NULL")?;
    Ok(statement.execute((id.to_string(), now.0, text::write(&end)?))?)
}

pub(super) fn end_overdue(connection: &Connection, now: Timestamp) -> Result<usize, WriteError> {
    let expired = connection
        .prepare_cached("UPDATE queue SET ended_at = ?1, ended = ?2 WHERE ended_at IS NULL AND until <= ?1")?
        .execute((now.0, text::write(&PlaceEnd::Expired)?))?;
    let abandoned = connection
        .prepare_cached(
            "UPDATE queue SET ended_at = ?1, ended = ?2
             WHERE ended_at IS NULL AND node NOT IN (SELECT id FROM nodes)",
        )?
        .execute((now.0, text::write(&PlaceEnd::Abandoned)?))?;
    Ok(expired + abandoned)
}

pub(super) fn prune(connection: &Connection, before: Timestamp, limit: i64) -> Result<usize, WriteError> {
    let gone = connection
        .prepare_cached(
            "DELETE FROM queue WHERE seq IN (SELECT seq FROM queue WHERE ended_at < ?1 ORDER BY ended_at LIMIT ?2)",
        )?
        .execute((before.0, limit))?;
    Ok(gone)
}

impl From<WriteError> for JoinError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(Refused::NeverFits(scarcity)) => Self::NeverFits(scarcity),
            WriteError::Refused(Refused::PlaceExists { id }) => Self::Exists { id },
            WriteError::Sqlite(error) => Self::Store(Failure::of("join the queue", error).into()),
            other => Self::Store(other.into()),
        }
    }
}
