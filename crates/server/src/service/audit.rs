//! Who asked for what.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pinfold_api::{AuditEntry, AuditPage};
use pinfold_store::{Audit, Note};

use super::words::{self, moment};
use super::{Failure, Service};

/// How long a note may wait for others that are written with it: each write of its own would hold up those that
/// somebody waits for.
const GATHER: Duration = Duration::from_millis(100);

/// What is not written yet.
#[derive(Default)]
pub(super) struct Notes {
    gathered: Mutex<Vec<Note>>,
    /// Held while some are written, so that they stay in order, and whoever has had it knows that they are there.
    writing: tokio::sync::Mutex<()>,
}

impl Notes {
    fn lock(&self) -> MutexGuard<'_, Vec<Note>> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// What is not noted is told in the log: the request itself was answered.
    pub async fn note(&self, note: Note) {
        self.notes.lock().push(note);
        self.write_notes().await;
    }

    /// Without anybody waiting for it but the end of this process.
    pub fn note_beside(self: &Arc<Self>, note: Note) {
        let is_first = {
            let mut gathered = self.notes.lock();
            gathered.push(note);
            gathered.len() == 1
        };
        if is_first {
            let service = Arc::downgrade(self);
            tokio::spawn(async move {
                tokio::time::sleep(GATHER).await;
                if let Some(service) = service.upgrade() {
                    service.write_notes().await;
                }
            });
        }
    }

    /// All that were made before are there when this returns.
    pub(super) async fn write_notes(&self) {
        let writing = self.notes.writing.lock().await;
        let notes = std::mem::take(&mut *self.notes.lock());
        if notes.is_empty() {
            return;
        }
        let told = |note: &Note| format!("{} {} by {}", note.method, note.path, note.token);
        let told: Vec<_> = notes.iter().map(told).collect();
        if let Err(error) = self.host.store.note(notes).await {
            tracing::error!(error = &error as &dyn std::error::Error, ?told, "could not note who asked");
        }
        drop(writing);
    }

    pub async fn audit(&self, after: u64, limit: usize) -> Result<AuditPage, Failure> {
        self.write_notes().await;
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
