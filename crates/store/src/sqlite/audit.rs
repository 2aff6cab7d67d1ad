//! Notes of who asked, as rows.

use async_trait::async_trait;
use pinfold_lifecycle::Timestamp;
use rusqlite::Connection;

use super::failure::WriteError;
use super::ledger::signed;
use super::runs::Runs;
use super::text;
use super::write::Write;
use crate::{Audit, Note, StoreError};

#[async_trait]
impl<R: Runs> Audit for R {
    async fn note(&self, notes: Vec<Note>) -> Result<(), StoreError> {
        self.write(Write::Note(notes)).await?;
        Ok(())
    }

    async fn notes(&self, after: i64, limit: usize) -> Result<Vec<(i64, Note)>, StoreError> {
        self.read("read who asked", |rows| list(rows, after, limit))
    }
}

pub(super) fn add(connection: &Connection, notes: &[Note]) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached("INSERT INTO audit (at, note) VALUES (?1, ?2)")?;
    for note in notes {
        statement.execute((note.at.0, text::write(note)?))?;
    }
    Ok(())
}

pub(super) fn prune(connection: &Connection, before: Timestamp, limit: i64) -> Result<usize, WriteError> {
    let gone = connection
        .prepare_cached(
            "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE at < ?1 ORDER BY at LIMIT ?2)",
        )?
        .execute((before.0, limit))?;
    Ok(gone)
}

fn list(connection: &Connection, after: i64, limit: usize) -> rusqlite::Result<Vec<(i64, Note)>> {
    let mut statement =
        connection.prepare_cached("SELECT seq, note FROM audit WHERE seq > ?1 ORDER BY seq LIMIT ?2")?;
    let rows =
        statement.query_map((after, signed(limit as u64)), |row| Ok((row.get(0)?, text::read(row, 1)?)))?;
    rows.collect()
}
