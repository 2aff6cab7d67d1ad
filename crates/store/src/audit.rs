//! Who asked for what: one line for each request that may have changed something. Beside [`crate::Store`], which
//! engines use; what came of it is in the history.

use async_trait::async_trait;
use pinfold_lifecycle::{SandboxId, Timestamp, TokenId};
use serde::{Deserialize, Serialize};

use crate::{Role, StoreError};

/// Where it is remembered who asked. The same promises hold as for [`crate::Store`].
#[async_trait]
pub trait Audit: Send + Sync + 'static {
    /// All of them or none.
    async fn note(&self, notes: Vec<Note>) -> Result<(), StoreError>;

    /// After a place, the oldest first. They are kept as long as the history is.
    async fn notes(&self, after: i64, limit: usize) -> Result<Vec<(i64, Note)>, StoreError>;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub at: Timestamp,
    pub token: TokenId,
    /// The token's, at that time.
    pub name: String,
    pub role: Role,
    pub request_id: String,
    pub method: String,
    pub path: String,
    /// How it was answered.
    pub status: u16,
    /// Whose it was, where it concerns one.
    pub sandbox: Option<SandboxId>,
}
