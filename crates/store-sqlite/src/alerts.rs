//! Alerts as rows: their states, their history, and the notices to deliver.

use async_trait::async_trait;
use pinfold_lifecycle::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::Sqlite;
use crate::errors::{Refusal, WriteError};
use crate::executor::Executor;
use crate::requests::{WriteDone, WriteRequest};
use crate::totals::signed;
use pinfold_store::{
    AlertChange, AlertRecord, AlertRow, AlertStore, Delivery, DeliveryClaim, DeliveryResult, DeliveryState,
    NewAlertRecord, NewDelivery, StoreError, Version,
};

/// History records and deliveries beyond this number are deleted, even young ones.
const MAX_ROWS: i64 = 50_000;

const DELIVERY_COLUMNS: &str = "seq, id, at, name, target, notice, attempts, state, state_at, last_result";

#[async_trait]
impl<E: Executor> AlertStore for Sqlite<E> {
    async fn alert_states(&self) -> Result<Vec<AlertRow>, StoreError> {
        self.executor.read("read alerts", |rows| {
            let mut statement =
                rows.prepare_cached("SELECT name, version, state FROM alerts ORDER BY name")?;
            let row =
                |row: &Row<'_>| Ok(AlertRow { name: row.get(0)?, version: row.get(1)?, state: row.get(2)? });
            statement.query_map([], row)?.collect()
        })
    }

    async fn change_alerts(&self, change: AlertChange) -> Result<bool, StoreError> {
        match self.executor.write(WriteRequest::ChangeAlerts(Box::new(change))).await {
            Ok(_) => Ok(true),
            Err(WriteError::Refused(Refusal::Conflict { .. })) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn alert_history(
        &self,
        of: Option<String>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<AlertRecord>, StoreError> {
        self.executor.read("read the history of alerts", |rows| history(rows, of.as_deref(), before, limit))
    }

    async fn deliveries(&self, before: Option<i64>, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        self.executor.read("read deliveries", |rows| {
            let sql = format!(
                "SELECT {DELIVERY_COLUMNS} FROM deliveries WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2"
            );
            let mut statement = rows.prepare_cached(&sql)?;
            let rows = statement.query_map((before.unwrap_or(i64::MAX), signed(limit as u64)), delivery)?;
            rows.collect()
        })
    }

    async fn claim_deliveries(&self, claim: DeliveryClaim) -> Result<Vec<Delivery>, StoreError> {
        let claim_id = claim.claim_id.clone();
        self.executor.write(WriteRequest::ClaimDeliveries(Box::new(claim))).await?;
        self.executor.read("read claimed deliveries", |rows| {
            let sql = format!(
                "SELECT {DELIVERY_COLUMNS} FROM deliveries WHERE claim_id = ?1 AND state = 'waiting' ORDER BY seq"
            );
            rows.prepare_cached(&sql)?.query_map([claim_id], delivery)?.collect()
        })
    }

    async fn next_delivery(&self, target: &str) -> Result<Option<Timestamp>, StoreError> {
        self.executor.read_few("find the next delivery", |rows| {
            let sql = "SELECT min(max(state_at, claimed_until)) FROM deliveries
                       WHERE target = ?1 AND state = 'waiting'";
            let next = rows.prepare_cached(sql)?.query_row([target], |row| row.get::<_, Option<i64>>(0));
            Ok(next.optional()?.flatten().map(Timestamp))
        })
    }

    async fn finish_delivery(&self, result: DeliveryResult) -> Result<bool, StoreError> {
        let wrote = self.executor.write(WriteRequest::FinishDelivery(Box::new(result))).await?;
        Ok(wrote == WriteDone::DeliveryFinished(true))
    }
}

pub(crate) fn change(connection: &Connection, change: &AlertChange) -> Result<(), WriteError> {
    for row in &change.states {
        let changed = if row.version == 0 {
            let sql = "INSERT OR IGNORE INTO alerts (name, version, state) VALUES (?1, 1, ?2)";
            connection.prepare_cached(sql)?.execute((&row.name, &row.state))?
        } else {
            let sql = "UPDATE alerts SET version = version + 1, state = ?2 WHERE name = ?1 AND version = ?3";
            connection.prepare_cached(sql)?.execute((&row.name, &row.state, row.version))?
        };
        if changed == 0 {
            return Err(Refusal::Conflict { current: Version(row.version) }.into());
        }
    }
    let sql = "INSERT INTO alert_history (at, name, entry) VALUES (?1, ?2, ?3)";
    for NewAlertRecord { at, name, entry } in &change.records {
        connection.prepare_cached(sql)?.execute((at.0, name, entry))?;
    }
    let sql =
        "INSERT INTO deliveries (id, at, name, target, notice, attempts, state, state_at, claimed_until)
               VALUES (?1, ?2, ?3, ?4, ?5, 0, 'waiting', ?2, 0)";
    for NewDelivery { id, at, name, target, notice } in &change.deliveries {
        connection.prepare_cached(sql)?.execute((id, at.0, name, target, notice))?;
    }
    Ok(())
}

pub(crate) fn claim(connection: &Connection, claim: &DeliveryClaim) -> Result<(), WriteError> {
    let sql = "UPDATE deliveries SET claim_id = ?1, claimed_until = ?4 WHERE seq IN
               (SELECT seq FROM deliveries WHERE target = ?2 AND state = 'waiting' AND state_at <= ?3
                AND claimed_until <= ?3 ORDER BY seq LIMIT ?5)";
    let limit = signed(claim.limit as u64);
    connection.prepare_cached(sql)?.execute((
        &claim.claim_id,
        &claim.target,
        claim.now.0,
        claim.until.0,
        limit,
    ))?;
    Ok(())
}

pub(crate) fn finish_delivery(connection: &Connection, result: &DeliveryResult) -> Result<bool, WriteError> {
    let (state, state_at) = match result.state {
        DeliveryState::Waiting { until } => ("waiting", until),
        DeliveryState::Delivered { at } => ("delivered", at),
        DeliveryState::GivenUp { at } => ("given_up", at),
    };
    let sql =
        "UPDATE deliveries SET state = ?3, state_at = ?4, last_result = ?5, attempts = attempts + 1, claim_id = NULL,
               claimed_until = 0 WHERE id = ?1 AND state = 'waiting' AND (claim_id = ?2 OR ?3 = 'delivered')";
    let changed = connection.prepare_cached(sql)?.execute((
        &result.id,
        &result.claim_id,
        state,
        state_at.0,
        &result.result,
    ))?;
    Ok(changed > 0)
}

/// Returns the largest number of rows that one statement deleted.
pub(crate) fn prune(connection: &Connection, before: Timestamp, limit: i64) -> Result<usize, WriteError> {
    let mut deleted = 0;
    for table in ["alert_history", "deliveries"] {
        let old = format!(
            "DELETE FROM {table} WHERE seq IN (SELECT seq FROM {table} WHERE at < ?1 ORDER BY at LIMIT ?2)"
        );
        deleted = deleted.max(connection.prepare_cached(&old)?.execute((before.0, limit))?);
        let many = format!(
            "DELETE FROM {table} WHERE seq IN (SELECT seq FROM {table}
             WHERE seq <= (SELECT max(seq) FROM {table}) - ?1 ORDER BY seq LIMIT ?2)"
        );
        deleted = deleted.max(connection.prepare_cached(&many)?.execute((MAX_ROWS, limit))?);
    }
    Ok(deleted)
}

fn history(
    connection: &Connection,
    of: Option<&str>,
    before: Option<i64>,
    limit: usize,
) -> rusqlite::Result<Vec<AlertRecord>> {
    let sql = "SELECT seq, at, name, entry FROM alert_history WHERE seq < ?1 AND (?2 IS NULL OR name = ?2)
               ORDER BY seq DESC LIMIT ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let record = |row: &Row<'_>| {
        let happened = NewAlertRecord { at: Timestamp(row.get(1)?), name: row.get(2)?, entry: row.get(3)? };
        Ok(AlertRecord { seq: row.get(0)?, record: happened })
    };
    statement.query_map((before.unwrap_or(i64::MAX), of, signed(limit as u64)), record)?.collect()
}

fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let state_at = Timestamp(row.get(8)?);
    let state = match row.get_ref(7)?.as_str()? {
        "delivered" => DeliveryState::Delivered { at: state_at },
        "given_up" => DeliveryState::GivenUp { at: state_at },
        _ => DeliveryState::Waiting { until: state_at },
    };
    Ok(Delivery {
        seq: row.get(0)?,
        new: NewDelivery {
            id: row.get(1)?,
            at: Timestamp(row.get(2)?),
            name: row.get(3)?,
            target: row.get(4)?,
            notice: row.get(5)?,
        },
        attempts: row.get(6)?,
        state,
        last_result: row.get(9)?,
    })
}
