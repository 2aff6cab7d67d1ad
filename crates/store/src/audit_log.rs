//! The audit log: one record for each API request that may have changed something. The effects of the request are in
//! the history.

use async_trait::async_trait;
use pinfold_lifecycle::{SandboxId, Timestamp, TokenId};
use serde::{Deserialize, Serialize};

use crate::{Role, StoreError};

/// The audit log. Durability is that of [`crate::Store`]; record numbers grow in commit order and are never reused.
#[async_trait]
pub trait AuditLog: Send + Sync + 'static {
    /// Appends all of the records, or none.
    async fn append_audit(&self, records: Vec<AuditRecord>) -> Result<(), StoreError>;

    /// The records after a number, the oldest first. They are kept as long as the history is.
    async fn audit_records(&self, after: i64, limit: usize) -> Result<Vec<(i64, AuditRecord)>, StoreError>;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    pub at: Timestamp,
    pub token: TokenId,
    /// The token's name at that time.
    pub name: String,
    /// The token's role at that time.
    pub role: Role,
    pub request_id: String,
    pub method: String,
    pub path: String,
    /// The HTTP status of the answer.
    pub status: u16,
    /// The sandbox that the request was about, if it was about one.
    pub sandbox: Option<SandboxId>,
}
