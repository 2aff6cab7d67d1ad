//! Who asked for what.

use std::sync::Arc;

use pinfold_api::{AuditEntry, AuditPage};
use pinfold_store::{Audit, Note};

use super::words::{self, moment};
use super::{Failure, Service};

impl Service {
    /// What is not noted is told in the log: the request itself was answered.
    pub async fn note(&self, note: Note) {
        let told = format!("{} {} by {}", note.method, note.path, note.token);
        if let Err(error) = self.host.store.note(note).await {
            tracing::error!(error = &error as &dyn std::error::Error, told, "could not note who asked");
        }
    }

    /// Without anybody waiting for it but the end of this process.
    pub fn note_beside(self: &Arc<Self>, note: Note) {
        let service = self.clone();
        let held = self.noting.clone().try_read_owned();
        tokio::spawn(async move {
            service.note(note).await;
            drop(held);
        });
    }

    pub async fn audit(&self, after: u64, limit: usize) -> Result<AuditPage, Failure> {
        let place = i64::try_from(after).unwrap_or(i64::MAX);
        let mut notes = self.host.store.notes(place, limit.saturating_add(1)).await?;
        let more = notes.len() > limit;
        notes.truncate(limit);
        let entries: Vec<_> = notes.iter().map(|(seq, note)| entry(*seq, note)).collect();
        let next = entries.last().map_or(after, |entry| entry.seq);
        Ok(AuditPage { entries, next, more })
    }
}

fn entry(seq: i64, note: &Note) -> AuditEntry {
    AuditEntry {
        seq: u64::try_from(seq).unwrap_or(0),
        at: moment(note.at),
        token_id: note.token.to_string(),
        token_name: note.name.clone(),
        role: words::role(note.role),
        request_id: note.request_id.clone(),
        method: note.method.clone(),
        path: note.path.clone(),
        status: note.status,
        sandbox_id: note.sandbox.map(|id| id.to_string()),
    }
}
