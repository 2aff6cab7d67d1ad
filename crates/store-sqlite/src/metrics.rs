//! Metrics as rows: one row of totals, and one row for each minute or quarter of an hour.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pinfold_lifecycle::{SandboxId, Timestamp};
use rusqlite::{Connection, OptionalExtension};

use crate::Sqlite;
use crate::errors::WriteError;
use crate::executor::Executor;
use crate::json;
use crate::read::history_row;
use crate::requests::{WriteDone, WriteRequest};
use crate::totals::{signed, unsigned};
use pinfold_store::{
    CountBatch, CounterValues, Gauge, HistoryRow, MetricPoint, MetricStore, Seq, StoreError,
};
use pinfold_store::{MINUTE_MS, QUARTER_HOUR_MS, floor_to_step};

type Gauges = BTreeMap<String, Gauge>;

/// Minutes that are merged in one transaction: more than a day has.
const MINUTES_PER_TRANSACTION: i64 = 1_500;
/// SQLite reads a negative limit as none.
const NO_LIMIT: i64 = -1;
/// The row of `meta` with the time up to which points are closed.
const CLOSED_TO: &str = "metrics_closed_to";
/// Counters with this prefix keep their largest value.
const MAX_PREFIX: &str = "max.";

pub(crate) const HISTORY_UP_TO: &str = "SELECT seq, sandbox_id, record FROM history
    WHERE sandbox_id = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT ?3";
pub(crate) const POINTS_BETWEEN: &str =
    "SELECT at, step_ms, counters, gauges FROM metric_points WHERE at >= ?1 AND at < ?2 ORDER BY at, step_ms";

#[async_trait]
impl<E: Executor> MetricStore for Sqlite<E> {
    async fn counted_up_to(&self) -> Result<Seq, StoreError> {
        self.executor.read_few("find up to where the history was counted", counted_to)
    }

    async fn metric_totals(&self) -> Result<CounterValues, StoreError> {
        self.executor.read("read the metric totals", |rows| {
            rows.prepare_cached("SELECT counters FROM metric_totals")?.query_row([], |row| json::read(row, 0))
        })
    }

    async fn add_counts(&self, batch: CountBatch) -> Result<bool, StoreError> {
        Ok(self.executor.write(WriteRequest::AddCounts(Box::new(batch))).await?
            == WriteDone::MetricsAdded(true))
    }

    async fn record_gauges(
        &self,
        minute: Timestamp,
        gauges: BTreeMap<String, f64>,
    ) -> Result<bool, StoreError> {
        Ok(self.executor.write(WriteRequest::RecordGauges { minute, gauges }).await?
            == WriteDone::MetricsAdded(true))
    }

    async fn metric_points(&self, from: Timestamp, to: Timestamp) -> Result<Vec<MetricPoint>, StoreError> {
        self.executor.read("read metric points", |rows| {
            rows.prepare_cached(POINTS_BETWEEN)?.query_map((from.0, to.0), metric_point)?.collect()
        })
    }

    async fn downsample(&self, minutes_before: Timestamp) -> Result<(), StoreError> {
        self.executor.write(WriteRequest::Downsample { minutes_before }).await?;
        Ok(())
    }

    async fn oldest_metric_point(&self) -> Result<Option<Timestamp>, StoreError> {
        self.executor.read_few("find the oldest metric point", |rows| {
            let oldest: Option<i64> =
                rows.prepare_cached("SELECT min(at) FROM metric_points")?.query_row([], |row| row.get(0))?;
            Ok(oldest.map(Timestamp))
        })
    }

    async fn close_quarter_hours(&self, before: Timestamp) -> Result<(), StoreError> {
        self.executor.write(WriteRequest::CloseQuarterHours { before }).await?;
        Ok(())
    }

    async fn drop_closed_points(&self, before: Timestamp) -> Result<(), StoreError> {
        self.executor.write(WriteRequest::DropClosedPoints { before }).await?;
        Ok(())
    }

    async fn history_up_to(
        &self,
        of: SandboxId,
        seq: Seq,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.executor.read("read the history", |rows| {
            let mut statement = rows.prepare_cached(HISTORY_UP_TO)?;
            let found = statement.query_map((of.to_string(), seq.0, signed(limit as u64)), history_row)?;
            let mut found: Vec<_> = found.collect::<rusqlite::Result<_>>()?;
            found.reverse();
            Ok(found)
        })
    }
}

fn counted_to(connection: &Connection) -> rusqlite::Result<Seq> {
    connection
        .prepare_cached("SELECT history_seq FROM metric_totals")?
        .query_row([], |row| row.get(0).map(Seq))
}

fn metric_point(row: &rusqlite::Row<'_>) -> rusqlite::Result<MetricPoint> {
    Ok(MetricPoint {
        at: Timestamp(row.get(0)?),
        step_ms: unsigned(row.get(1)?),
        counters: json::read(row, 2)?,
        gauges: json::read(row, 3)?,
    })
}

/// False: another server has counted this part of the history.
pub(crate) fn add_counts(connection: &Connection, batch: &CountBatch) -> Result<bool, WriteError> {
    if let Some((from, to)) = batch.history_range {
        let moved = connection
            .prepare_cached("UPDATE metric_totals SET history_seq = ?2 WHERE history_seq = ?1")?
            .execute((from.0, to.0))?;
        if moved == 0 {
            return Ok(false);
        }
    }
    let mut all: CounterValues = connection
        .prepare_cached("SELECT counters FROM metric_totals")?
        .query_row([], |row| json::read(row, 0))?;
    let open_from = closed_to(connection)?;
    for (minute, counters) in &batch.minutes {
        add(&mut all, counters);
        add_to_point(
            connection,
            MINUTE_MS,
            floor_to_step(*minute, MINUTE_MS).max(open_from),
            counters,
            &Gauges::new(),
        )?;
    }
    connection.prepare_cached("UPDATE metric_totals SET counters = ?1")?.execute([json::write(&all)?])?;
    Ok(true)
}

/// False: the gauges of this minute are recorded already.
pub(crate) fn record_gauges(
    connection: &Connection,
    minute: Timestamp,
    gauges: &BTreeMap<String, f64>,
) -> Result<bool, WriteError> {
    let minute = floor_to_step(minute, MINUTE_MS).max(closed_to(connection)?);
    if find(connection, MINUTE_MS, minute)?.is_some_and(|found| !found.gauges.is_empty()) {
        return Ok(false);
    }
    let seen = gauges.iter().map(|(name, value)| (name.clone(), Gauge { sum: *value, samples: 1 }));
    add_to_point(connection, MINUTE_MS, minute, &CounterValues::new(), &seen.collect())?;
    Ok(true)
}

pub(crate) fn downsample(connection: &Connection, minutes_before: Timestamp) -> Result<(), WriteError> {
    merge_minutes(connection, minutes_before, MINUTES_PER_TRANSACTION)
}

/// Merges the remaining minutes, so that every reader of closed points finds the same quarters of an hour.
pub(crate) fn close_quarter_hours(connection: &Connection, before: Timestamp) -> Result<(), WriteError> {
    let before = floor_to_step(before, QUARTER_HOUR_MS);
    if before <= closed_to(connection)? {
        return Ok(());
    }
    merge_minutes(connection, before, NO_LIMIT)?;
    connection
        .prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)")?
        .execute((CLOSED_TO, before.0.to_string()))?;
    Ok(())
}

pub(crate) fn drop_closed_points(connection: &Connection, before: Timestamp) -> Result<(), WriteError> {
    let before = before.min(closed_to(connection)?);
    connection.prepare_cached("DELETE FROM metric_points WHERE at < ?1")?.execute([before.0])?;
    Ok(())
}

/// The earliest possible time while nothing is closed.
fn closed_to(connection: &Connection) -> rusqlite::Result<Timestamp> {
    let closed: Option<i64> = connection
        .prepare_cached("SELECT CAST(value AS INTEGER) FROM meta WHERE name = ?1")?
        .query_row([CLOSED_TO], |row| row.get(0))
        .optional()?;
    Ok(Timestamp(closed.unwrap_or(i64::MIN)))
}

fn merge_minutes(connection: &Connection, minutes_before: Timestamp, limit: i64) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached(
        "SELECT at, step_ms, counters, gauges FROM metric_points WHERE step_ms = ?1 AND at < ?2 ORDER BY at LIMIT ?3",
    )?;
    let old = statement.query_map((signed(MINUTE_MS), minutes_before.0, limit), metric_point)?;
    let old: Vec<_> = old.collect::<rusqlite::Result<_>>()?;
    for minute in old {
        add_to_point(
            connection,
            QUARTER_HOUR_MS,
            floor_to_step(minute.at, QUARTER_HOUR_MS),
            &minute.counters,
            &minute.gauges,
        )?;
        connection
            .prepare_cached("DELETE FROM metric_points WHERE step_ms = ?1 AND at = ?2")?
            .execute((signed(MINUTE_MS), minute.at.0))?;
    }
    Ok(())
}

fn find(connection: &Connection, step_ms: u64, at: Timestamp) -> rusqlite::Result<Option<MetricPoint>> {
    connection
        .prepare_cached(
            "SELECT at, step_ms, counters, gauges FROM metric_points WHERE step_ms = ?1 AND at = ?2",
        )?
        .query_row((signed(step_ms), at.0), metric_point)
        .optional()
}

/// Adds to the point that begins at `at`, and makes it if it is missing.
fn add_to_point(
    connection: &Connection,
    step_ms: u64,
    at: Timestamp,
    counters: &CounterValues,
    gauges: &Gauges,
) -> Result<(), WriteError> {
    let mut point = find(connection, step_ms, at)?.unwrap_or_default();
    add(&mut point.counters, counters);
    for (name, gauge) in gauges {
        let seen = point.gauges.entry(name.clone()).or_default();
        seen.sum += gauge.sum;
        seen.samples = seen.samples.saturating_add(gauge.samples);
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO metric_points (step_ms, at, counters, gauges) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute((signed(step_ms), at.0, json::write(&point.counters)?, json::write(&point.gauges)?))?;
    Ok(())
}

fn add(all: &mut CounterValues, more: &CounterValues) {
    for (name, number) in more {
        let sum = all.entry(name.clone()).or_default();
        *sum = if name.starts_with(MAX_PREFIX) { *number.max(sum) } else { sum.saturating_add(*number) };
    }
}
