//! API tokens as rows.

use async_trait::async_trait;
use pinfold_lifecycle::{Timestamp, TokenId};
use rusqlite::{Connection, OptionalExtension};

use crate::Sqlite;
use crate::errors::{InvalidRequest, Refusal, WriteError};
use crate::executor::Executor;
use crate::json;
use crate::requests::{WriteDone, WriteRequest};
use pinfold_store::{StoreError, Token, TokenStore};

const COLUMNS: &str = "id, name, role, hash, created_at, revoked_at";

#[async_trait]
impl<E: Executor> TokenStore for Sqlite<E> {
    async fn add_token(&self, token: Token) -> Result<(), StoreError> {
        self.executor.write(WriteRequest::AddToken(Box::new(token))).await?;
        Ok(())
    }

    async fn token(&self, id: TokenId) -> Result<Option<Token>, StoreError> {
        self.executor.read_few("read a token", |rows| find(rows, id))
    }

    async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        self.executor.read("list tokens", list)
    }

    async fn revoke_token(&self, id: TokenId, at: Timestamp) -> Result<bool, StoreError> {
        Ok(self.executor.write(WriteRequest::RevokeToken { id, at }).await? == WriteDone::TokenRevoked(true))
    }
}

pub(crate) fn add(connection: &Connection, token: &Token) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached(&format!(
        "INSERT OR IGNORE INTO tokens ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
    ))?;
    let added = statement.execute((
        token.id.to_string(),
        &token.name,
        json::write(&token.role)?,
        token.hash,
        token.created_at.0,
        token.revoked_at.map(|at| at.0),
    ))?;
    if added == 0 {
        return Err(
            Refusal::Invalid { action: "add a token", reason: InvalidRequest::UsedToken(token.id) }.into()
        );
    }
    Ok(())
}

pub(crate) fn revoke(connection: &Connection, id: TokenId, at: Timestamp) -> Result<bool, WriteError> {
    let mut statement =
        connection.prepare_cached("UPDATE tokens SET revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1")?;
    Ok(statement.execute((id.to_string(), at.0))? > 0)
}

fn find(connection: &Connection, id: TokenId) -> rusqlite::Result<Option<Token>> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM tokens WHERE id = ?1"))?;
    statement.query_row([id.to_string()], token).optional()
}

fn list(connection: &Connection) -> rusqlite::Result<Vec<Token>> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM tokens ORDER BY id"))?;
    statement.query_map([], token)?.collect()
}

fn token(row: &rusqlite::Row<'_>) -> rusqlite::Result<Token> {
    Ok(Token {
        id: json::id(row, 0)?,
        name: row.get(1)?,
        role: json::read(row, 2)?,
        hash: row.get(3)?,
        created_at: Timestamp(row.get(4)?),
        revoked_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
    })
}
