//! Who may come in: tokens by their ids, with a hash of the secret. Beside [`crate::Store`], which engines use.

use async_trait::async_trait;
use pinfold_lifecycle::{Timestamp, TokenId};
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// Where tokens are remembered. The same promises hold as for [`crate::Store`].
#[async_trait]
pub trait Tokens: Send + Sync + 'static {
    async fn add_token(&self, token: Token) -> Result<(), StoreError>;

    async fn token(&self, id: TokenId) -> Result<Option<Token>, StoreError>;

    /// All of them, the oldest first, those that were revoked too.
    async fn tokens(&self) -> Result<Vec<Token>, StoreError>;

    /// Says whether there is such a token. Revoking again keeps the first moment.
    async fn revoke_token(&self, id: TokenId, at: Timestamp) -> Result<bool, StoreError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    /// For people.
    pub name: String,
    pub role: Role,
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

/// What a token is good for. Each may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look.
    Viewer,
    /// Make, use and end sandboxes.
    Operator,
    /// Say who may do what, and clean up.
    Admin,
}
