//! API tokens by their ids, with a hash of the secret.

use async_trait::async_trait;
use pinfold_lifecycle::{Timestamp, TokenId};
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// The API tokens. Durability is that of [`crate::Store`].
#[async_trait]
pub trait TokenStore: Send + Sync + 'static {
    async fn add_token(&self, token: Token) -> Result<(), StoreError>;

    async fn token(&self, id: TokenId) -> Result<Option<Token>, StoreError>;

    /// All tokens, revoked ones included, the oldest first.
    async fn tokens(&self) -> Result<Vec<Token>, StoreError>;

    /// Returns whether there is such a token. Revoking it again keeps the first time.
    async fn revoke_token(&self, id: TokenId, at: Timestamp) -> Result<bool, StoreError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    /// Shown to people.
    pub name: String,
    pub role: Role,
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

/// The permissions of a token. Each role may do all that the roles before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Read.
    Viewer,
    /// Create, use and end sandboxes.
    Operator,
    /// Manage tokens, and clean up.
    Admin,
}
