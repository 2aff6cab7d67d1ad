//! Figures as rows: one of all that was counted, and one for each minute or quarter of an hour.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pinfold_lifecycle::{SandboxId, Timestamp};
use rusqlite::{Connection, OptionalExtension};

use super::failure::WriteError;
use super::ledger::{signed, unsigned};
use super::read::history_row;
use super::runs::Runs;
use super::text;
use super::write::{Write, Wrote};
use crate::measure::{MINUTE_MS, QUARTER_MS, step_of};
use crate::{Count, Gauge, HistoryRow, Measured, Measures, Seq, StoreError, Sums};

type Gauges = BTreeMap<String, Gauge>;

/// Minutes that become quarters of hours in one transaction: more than a day has.
const MINUTES_AT_ONCE: i64 = 1_500;
/// What SQLite takes for no limit.
const ALL: i64 = -1;
/// The row of `meta` that says what is closed.
const CLOSED_TO: &str = "figures_closed_to";
/// Names that begin so keep their largest number.
const LARGEST: &str = "max.";

pub(super) const UP_TO: &str = "SELECT seq, sandbox_id, record FROM history
    WHERE sandbox_id = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT ?3";
pub(super) const MEASURED: &str =
    "SELECT at, step, sums, gauges FROM measured WHERE at >= ?1 AND at < ?2 ORDER BY at, step";

#[async_trait]
impl<R: Runs> Measures for R {
    async fn counted_to(&self) -> Result<Seq, StoreError> {
        self.read_little("find how far the history was counted", counted_to)
    }

    async fn counted(&self) -> Result<Sums, StoreError> {
        self.read("read what was counted", |rows| {
            rows.prepare_cached("SELECT sums FROM counted")?.query_row([], |row| text::read(row, 0))
        })
    }

    async fn count(&self, count: Count) -> Result<bool, StoreError> {
        Ok(self.write(Write::Count(Box::new(count))).await? == Wrote::Counted(true))
    }

    async fn sample(&self, minute: Timestamp, gauges: BTreeMap<String, f64>) -> Result<bool, StoreError> {
        Ok(self.write(Write::Sample { minute, gauges }).await? == Wrote::Counted(true))
    }

    async fn measured(&self, from: Timestamp, to: Timestamp) -> Result<Vec<Measured>, StoreError> {
        self.read("read what was measured", |rows| {
            rows.prepare_cached(MEASURED)?.query_map((from.0, to.0), measured)?.collect()
        })
    }

    async fn thin_out(&self, minutes_before: Timestamp) -> Result<(), StoreError> {
        self.write(Write::ThinOut { minutes_before }).await?;
        Ok(())
    }

    async fn oldest_measured(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read_little("find the oldest that was measured", |rows| {
            let oldest: Option<i64> =
                rows.prepare_cached("SELECT min(at) FROM measured")?.query_row([], |row| row.get(0))?;
            Ok(oldest.map(Timestamp))
        })
    }

    async fn close(&self, before: Timestamp) -> Result<(), StoreError> {
        self.write(Write::CloseFigures { before }).await?;
        Ok(())
    }

    async fn drop_closed(&self, before: Timestamp) -> Result<(), StoreError> {
        self.write(Write::DropClosedFigures { before }).await?;
        Ok(())
    }

    async fn records_up_to(
        &self,
        of: SandboxId,
        place: Seq,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.read("read the history", |rows| {
            let mut statement = rows.prepare_cached(UP_TO)?;
            let found = statement.query_map((of.to_string(), place.0, signed(limit as u64)), history_row)?;
            let mut found: Vec<_> = found.collect::<rusqlite::Result<_>>()?;
            found.reverse();
            Ok(found)
        })
    }
}

fn counted_to(connection: &Connection) -> rusqlite::Result<Seq> {
    connection.prepare_cached("SELECT seq FROM counted")?.query_row([], |row| row.get(0).map(Seq))
}

fn measured(row: &rusqlite::Row<'_>) -> rusqlite::Result<Measured> {
    Ok(Measured {
        at: Timestamp(row.get(0)?),
        step_ms: unsigned(row.get(1)?),
        sums: text::read(row, 2)?,
        gauges: text::read(row, 3)?,
    })
}

/// False: it was counted on from there already.
pub(super) fn count(connection: &Connection, count: &Count) -> Result<bool, WriteError> {
    if let Some((from, to)) = count.span {
        let moved = connection
            .prepare_cached("UPDATE counted SET seq = ?2 WHERE seq = ?1")?
            .execute((from.0, to.0))?;
        if moved == 0 {
            return Ok(false);
        }
    }
    let mut all: Sums =
        connection.prepare_cached("SELECT sums FROM counted")?.query_row([], |row| text::read(row, 0))?;
    let open_from = closed_to(connection)?;
    for (minute, sums) in &count.minutes {
        add(&mut all, sums);
        put(connection, MINUTE_MS, step_of(*minute, MINUTE_MS).max(open_from), sums, &Gauges::new())?;
    }
    connection.prepare_cached("UPDATE counted SET sums = ?1")?.execute([text::write(&all)?])?;
    Ok(true)
}

/// False: this minute has been looked at.
pub(super) fn sample(
    connection: &Connection,
    minute: Timestamp,
    gauges: &BTreeMap<String, f64>,
) -> Result<bool, WriteError> {
    let minute = step_of(minute, MINUTE_MS).max(closed_to(connection)?);
    if find(connection, MINUTE_MS, minute)?.is_some_and(|found| !found.gauges.is_empty()) {
        return Ok(false);
    }
    let seen = gauges.iter().map(|(name, value)| (name.clone(), Gauge { sum: *value, times: 1 }));
    put(connection, MINUTE_MS, minute, &Sums::new(), &seen.collect())?;
    Ok(true)
}

pub(super) fn thin_out(connection: &Connection, minutes_before: Timestamp) -> Result<(), WriteError> {
    make_quarters(connection, minutes_before, MINUTES_AT_ONCE)
}

/// Whoever reads what is closed finds quarters only, so that all who read it find the same.
pub(super) fn close(connection: &Connection, before: Timestamp) -> Result<(), WriteError> {
    let before = step_of(before, QUARTER_MS);
    if before <= closed_to(connection)? {
        return Ok(());
    }
    make_quarters(connection, before, ALL)?;
    connection
        .prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)")?
        .execute((CLOSED_TO, before.0.to_string()))?;
    Ok(())
}

pub(super) fn drop_closed(connection: &Connection, before: Timestamp) -> Result<(), WriteError> {
    let before = before.min(closed_to(connection)?);
    connection.prepare_cached("DELETE FROM measured WHERE at < ?1")?.execute([before.0])?;
    Ok(())
}

/// Before the first close everything is open.
fn closed_to(connection: &Connection) -> rusqlite::Result<Timestamp> {
    let closed: Option<i64> = connection
        .prepare_cached("SELECT CAST(value AS INTEGER) FROM meta WHERE name = ?1")?
        .query_row([CLOSED_TO], |row| row.get(0))
        .optional()?;
    Ok(Timestamp(closed.unwrap_or(i64::MIN)))
}

fn make_quarters(connection: &Connection, minutes_before: Timestamp, limit: i64) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached(
        "SELECT at, step, sums, gauges FROM measured WHERE step = ?1 AND at < ?2 ORDER BY at LIMIT ?3",
    )?;
    let old = statement.query_map((signed(MINUTE_MS), minutes_before.0, limit), measured)?;
    let old: Vec<_> = old.collect::<rusqlite::Result<_>>()?;
    for minute in old {
        put(connection, QUARTER_MS, step_of(minute.at, QUARTER_MS), &minute.sums, &minute.gauges)?;
        connection
            .prepare_cached("DELETE FROM measured WHERE step = ?1 AND at = ?2")?
            .execute((signed(MINUTE_MS), minute.at.0))?;
    }
    Ok(())
}

fn find(connection: &Connection, step_ms: u64, at: Timestamp) -> rusqlite::Result<Option<Measured>> {
    connection
        .prepare_cached("SELECT at, step, sums, gauges FROM measured WHERE step = ?1 AND at = ?2")?
        .query_row((signed(step_ms), at.0), measured)
        .optional()
}

/// Adds to what is there.
fn put(
    connection: &Connection,
    step_ms: u64,
    at: Timestamp,
    sums: &Sums,
    gauges: &Gauges,
) -> Result<(), WriteError> {
    let mut held = find(connection, step_ms, at)?.unwrap_or_default();
    add(&mut held.sums, sums);
    for (name, gauge) in gauges {
        let seen = held.gauges.entry(name.clone()).or_default();
        seen.sum += gauge.sum;
        seen.times = seen.times.saturating_add(gauge.times);
    }
    connection
        .prepare_cached("INSERT OR REPLACE INTO measured (step, at, sums, gauges) VALUES (?1, ?2, ?3, ?4)")?
        .execute((signed(step_ms), at.0, text::write(&held.sums)?, text::write(&held.gauges)?))?;
    Ok(())
}

fn add(all: &mut Sums, more: &Sums) {
    for (name, number) in more {
        let held = all.entry(name.clone()).or_default();
        *held = if name.starts_with(LARGEST) { *number.max(held) } else { held.saturating_add(*number) };
    }
}
