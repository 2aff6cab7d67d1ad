//! Alerts as rows: their states, what happened to them, and what is to be delivered.

use async_trait::async_trait;
use pinfold_lifecycle::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

use super::failure::{Refused, WriteError};
use super::ledger::signed;
use super::runs::Runs;
use super::write::{Write, Wrote};
use crate::{
    AlertChange, AlertHappened, AlertRecord, AlertRow, Alerts, Delivery, DeliveryClaim, DeliverySettled,
    DeliveryState, NewDelivery, StoreError, Version,
};

/// So many happenings and deliveries are kept at the most, however young they are.
const MOST_ROWS: i64 = 50_000;

const DELIVERY: &str = "seq, id, at, name, target, notice, attempts, state, moment, last";

#[async_trait]
impl<R: Runs> Alerts for R {
    async fn alert_states(&self) -> Result<Vec<AlertRow>, StoreError> {
        self.read("read alerts", |rows| {
            let mut statement =
                rows.prepare_cached("SELECT name, version, state FROM alerts ORDER BY name")?;
            let row =
                |row: &Row<'_>| Ok(AlertRow { name: row.get(0)?, version: row.get(1)?, state: row.get(2)? });
            statement.query_map([], row)?.collect()
        })
    }

    async fn change_alerts(&self, change: AlertChange) -> Result<bool, StoreError> {
        match self.write(Write::ChangeAlerts(Box::new(change))).await {
            Ok(_) => Ok(true),
            Err(WriteError::Refused(Refused::Conflict { .. })) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn alert_history(
        &self,
        of: Option<String>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<AlertRecord>, StoreError> {
        self.read("read the history of alerts", |rows| history(rows, of.as_deref(), before, limit))
    }

    async fn deliveries(&self, before: Option<i64>, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        self.read("read deliveries", |rows| {
            let sql = format!("SELECT {DELIVERY} FROM deliveries WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2");
            let mut statement = rows.prepare_cached(&sql)?;
            let rows = statement.query_map((before.unwrap_or(i64::MAX), signed(limit as u64)), delivery)?;
            rows.collect()
        })
    }

    async fn claim_deliveries(&self, claim: DeliveryClaim) -> Result<Vec<Delivery>, StoreError> {
        let token = claim.token.clone();
        self.write(Write::ClaimDeliveries(Box::new(claim))).await?;
        self.read("read what was claimed", |rows| {
            let sql = format!(
                "SELECT {DELIVERY} FROM deliveries WHERE claim = ?1 AND state = 'waiting' ORDER BY seq"
            );
            rows.prepare_cached(&sql)?.query_map([token], delivery)?.collect()
        })
    }

    async fn next_delivery(&self, target: &str) -> Result<Option<Timestamp>, StoreError> {
        self.read_little("find what is to be delivered", |rows| {
            let sql = "SELECT min(max(moment, claimed_until)) FROM deliveries
                       WHERE target = ?1 AND state = 'waiting'";
            let next = rows.prepare_cached(sql)?.query_row([target], |row| row.get::<_, Option<i64>>(0));
            Ok(next.optional()?.flatten().map(Timestamp))
        })
    }

    async fn settle_delivery(&self, settled: DeliverySettled) -> Result<bool, StoreError> {
        let wrote = self.write(Write::SettleDelivery(Box::new(settled))).await?;
        Ok(wrote == Wrote::DeliverySettled(true))
    }
}

pub(super) fn change(connection: &Connection, change: &AlertChange) -> Result<(), WriteError> {
    for row in &change.states {
        let changed = if row.version == 0 {
            let sql = "INSERT OR IGNORE INTO alerts (name, version, state) VALUES (?1, 1, ?2)";
            connection.prepare_cached(sql)?.execute((&row.name, &row.state))?
        } else {
            let sql = "UPDATE alerts SET version = version + 1, state = ?2 WHERE name = ?1 AND version = ?3";
            connection.prepare_cached(sql)?.execute((&row.name, &row.state, row.version))?
        };
        if changed == 0 {
            return Err(Refused::Conflict { current: Version(row.version) }.into());
        }
    }
    let sql = "INSERT INTO alert_history (at, name, entry) VALUES (?1, ?2, ?3)";
    for AlertHappened { at, name, entry } in &change.happened {
        connection.prepare_cached(sql)?.execute((at.0, name, entry))?;
    }
    let sql = "INSERT INTO deliveries (id, at, name, target, notice, attempts, state, moment, claimed_until)
               VALUES (?1, ?2, ?3, ?4, ?5, 0, 'waiting', ?2, 0)";
    for NewDelivery { id, at, name, target, notice } in &change.deliveries {
        connection.prepare_cached(sql)?.execute((id, at.0, name, target, notice))?;
    }
    Ok(())
}

pub(super) fn claim(connection: &Connection, claim: &DeliveryClaim) -> Result<(), WriteError> {
    let sql = "UPDATE deliveries SET claim = ?1, claimed_until = ?4 WHERE seq IN
               (SELECT seq FROM deliveries WHERE target = ?2 AND state = 'waiting' AND moment <= ?3
                AND claimed_until <= ?3 ORDER BY seq LIMIT ?5)";
    let limit = signed(claim.limit as u64);
    connection.prepare_cached(sql)?.execute((
        &claim.token,
        &claim.target,
        claim.now.0,
        claim.until.0,
        limit,
    ))?;
    Ok(())
}

pub(super) fn settle(connection: &Connection, settled: &DeliverySettled) -> Result<bool, WriteError> {
    let (word, moment) = match settled.state {
        DeliveryState::Waiting { until } => ("waiting", until),
        DeliveryState::Delivered { at } => ("delivered", at),
        DeliveryState::GivenUp { at } => ("given_up", at),
    };
    let sql =
        "UPDATE deliveries SET state = ?3, moment = ?4, last = ?5, attempts = attempts + 1, claim = NULL,
               claimed_until = 0 WHERE id = ?1 AND state = 'waiting' AND (claim = ?2 OR ?3 = 'delivered')";
    let changed = connection.prepare_cached(sql)?.execute((
        &settled.id,
        &settled.token,
        word,
        moment.0,
        &settled.last,
    ))?;
    Ok(changed > 0)
}

/// The largest number of rows that went in one statement.
pub(super) fn prune(connection: &Connection, before: Timestamp, limit: i64) -> Result<usize, WriteError> {
    let mut gone = 0;
    for table in ["alert_history", "deliveries"] {
        let old = format!(
            "DELETE FROM {table} WHERE seq IN (SELECT seq FROM {table} WHERE at < ?1 ORDER BY at LIMIT ?2)"
        );
        gone = gone.max(connection.prepare_cached(&old)?.execute((before.0, limit))?);
        let many = format!(
            "DELETE FROM {table} WHERE seq IN (SELECT seq FROM {table}
             WHERE seq <= (SELECT max(seq) FROM {table}) - ?1 ORDER BY seq LIMIT ?2)"
        );
        gone = gone.max(connection.prepare_cached(&many)?.execute((MOST_ROWS, limit))?);
    }
    Ok(gone)
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
        let happened = AlertHappened { at: Timestamp(row.get(1)?), name: row.get(2)?, entry: row.get(3)? };
        Ok(AlertRecord { seq: row.get(0)?, happened })
    };
    statement.query_map((before.unwrap_or(i64::MAX), of, signed(limit as u64)), record)?.collect()
}

fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let moment = Timestamp(row.get(8)?);
    let state = match row.get_ref(7)?.as_str()? {
        "delivered" => DeliveryState::Delivered { at: moment },
        "given_up" => DeliveryState::GivenUp { at: moment },
        _ => DeliveryState::Waiting { until: moment },
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
        last: row.get(9)?,
    })
}
