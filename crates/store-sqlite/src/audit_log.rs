//! The audit log as rows.

use async_trait::async_trait;
use pinfold_lifecycle::Timestamp;
use rusqlite::Connection;

use crate::Sqlite;
use crate::errors::WriteError;
use crate::executor::Executor;
use crate::json;
use crate::requests::WriteRequest;
use crate::totals::signed;
use pinfold_store::{AuditLog, AuditRecord, StoreError};

#[async_trait]
impl<E: Executor> AuditLog for Sqlite<E> {
    async fn append_audit(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        self.executor.write(WriteRequest::AppendAudit(records)).await?;
        Ok(())
    }

    async fn audit_records(&self, after: i64, limit: usize) -> Result<Vec<(i64, AuditRecord)>, StoreError> {
        self.executor.read("read the audit log", |rows| list(rows, after, limit))
    }
}

pub(crate) fn append(connection: &Connection, records: &[AuditRecord]) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached("INSERT INTO audit_log (at, record) VALUES (?1, ?2)")?;
    for record in records {
        statement.execute((record.at.0, json::write(record)?))?;
    }
    Ok(())
}

pub(crate) fn prune(connection: &Connection, before: Timestamp, limit: i64) -> Result<usize, WriteError> {
    let deleted = connection
        .prepare_cached(
            "DELETE FROM audit_log WHERE seq IN (SELECT seq FROM audit_log WHERE at < ?1 ORDER BY at LIMIT ?2)",
        )?
        .execute((before.0, limit))?;
    Ok(deleted)
}

fn list(connection: &Connection, after: i64, limit: usize) -> rusqlite::Result<Vec<(i64, AuditRecord)>> {
    let mut statement = connection
        .prepare_cached("SELECT seq, record FROM audit_log WHERE seq > ?1 ORDER BY seq LIMIT ?2")?;
    let rows =
        statement.query_map((after, signed(limit as u64)), |row| Ok((row.get(0)?, json::read(row, 1)?)))?;
    rows.collect()
}
