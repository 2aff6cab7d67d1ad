//! The audit log: buffered writes, and pages for the API.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pinfold_api::{AuditEntry, AuditPage};
use pinfold_store::AuditRecord;

use super::convert::{self, rfc3339};
use super::{Failure, Service};

/// How long an entry may wait to be written together with others: a write per request would delay the writes that
/// callers wait for.
const FLUSH_DELAY: Duration = Duration::from_millis(100);

/// Entries that are not written yet.
#[derive(Default)]
pub(super) struct AuditBuffer {
    pending: Mutex<Vec<AuditRecord>>,
    /// Held during a write, so that entries stay in order and a second flush waits for the first.
    writing: tokio::sync::Mutex<()>,
}

impl AuditBuffer {
    fn lock(&self) -> MutexGuard<'_, Vec<AuditRecord>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// Writes an entry before it returns. A failed write is logged; the request itself was answered.
    pub async fn record_audit(&self, record: AuditRecord) {
        self.audit_buffer.lock().push(record);
        self.flush_audit_log().await;
    }

    /// Adds an entry that is written soon. Only shutdown waits for it.
    pub fn record_audit_later(self: &Arc<Self>, record: AuditRecord) {
        let is_first = {
            let mut pending = self.audit_buffer.lock();
            pending.push(record);
            pending.len() == 1
        };
        if is_first {
            let service = Arc::downgrade(self);
            tokio::spawn(async move {
                tokio::time::sleep(FLUSH_DELAY).await;
                if let Some(service) = service.upgrade() {
                    service.flush_audit_log().await;
                }
            });
        }
    }

    /// Writes all buffered entries. Earlier entries are in the store when this returns.
    pub(super) async fn flush_audit_log(&self) {
        let writing = self.audit_buffer.writing.lock().await;
        let records = std::mem::take(&mut *self.audit_buffer.lock());
        if records.is_empty() {
            return;
        }
        let describe =
            |record: &AuditRecord| format!("{} {} by {}", record.method, record.path, record.token);
        let lost: Vec<_> = records.iter().map(describe).collect();
        if let Err(error) = self.host.store.append_audit(records).await {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                lost = lost.join(", "),
                "could not write audit log entries, they are lost"
            );
        }
        drop(writing);
    }

    pub async fn audit_log(&self, after: u64, limit: usize) -> Result<AuditPage, Failure> {
        self.flush_audit_log().await;
        let place = i64::try_from(after).unwrap_or(i64::MAX);
        let mut records = self.host.store.audit_records(place, limit.saturating_add(1)).await?;
        let more = records.len() > limit;
        records.truncate(limit);
        let entries: Vec<_> = records.iter().map(|(seq, record)| entry(*seq, record)).collect();
        let next = entries.last().map_or(after, |entry| entry.seq);
        Ok(AuditPage { entries, next, more })
    }
}

fn entry(seq: i64, record: &AuditRecord) -> AuditEntry {
    AuditEntry {
        seq: u64::try_from(seq).unwrap_or(0),
        at: rfc3339(record.at),
        token_id: record.token.to_string(),
        token_name: record.name.clone(),
        role: convert::role(record.role),
        request_id: record.request_id.clone(),
        method: record.method.clone(),
        path: record.path.clone(),
        status: record.status,
        sandbox_id: record.sandbox.map(|id| id.to_string()),
    }
}
