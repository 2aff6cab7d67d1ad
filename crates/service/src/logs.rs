//! Sandbox logs: pages, streams, archiving and expiry.

use std::sync::Arc;
use std::time::Duration;

use pinfold_api::{self as api, LogHint, LogSource};
use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_logs::{Cursor, LogEntry, LogPage, PageLimit, ReadError, RetentionPeriods, Source};
use pinfold_store::Row;
use tokio::sync::mpsc;

use super::convert::rfc3339;
use super::log_patterns::LOG_PATTERNS;
use super::{Failure, Service};

/// Entries buffered for a slow reader. The rest stays in the log.
const BUFFERED: usize = 64;
/// A working sandbox without output for this long is usually hung.
const RECENT_MS: u64 = 60_000;

/// An item of a log stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEvent {
    Entry(api::LogEntry),
    /// The stream broke off; continue after the last entry.
    Interrupted {
        message: String,
    },
}

impl Service {
    pub async fn log(&self, id: SandboxId, after: &Cursor, entries: usize) -> Result<api::LogPage, Failure> {
        let limit = PageLimit { entries, ..PageLimit::default() };
        let page = self.host.logs.read(id, after, limit).await?;
        let works = match self.host.store.load(id).await? {
            Some(Row::Readable(stored)) => !stored.sandbox.executions.is_empty(),
            Some(Row::Unreadable(_)) | None => false,
        };
        let quiet_ms = page.last_activity.filter(|_| works).map(|last| self.now().ms_since(last));
        let hints = hints(&page.entries, quiet_ms);
        let LogPage { last_activity, entries, next, more, finished } = page;
        Ok(api::LogPage {
            sandbox_id: id.to_string(),
            last_activity: last_activity.map(rfc3339),
            entries: entries.iter().map(entry).collect(),
            next: next.to_string(),
            more,
            over: finished,
            hints,
        })
    }

    /// Streams the log until the sandbox is gone or the receiver is dropped.
    pub async fn follow_log(
        self: &Arc<Self>,
        id: SandboxId,
        after: Cursor,
    ) -> Result<mpsc::Receiver<LogEvent>, Failure> {
        self.host.logs.last_activity(id).await?;
        let (sender, receiver) = mpsc::channel(BUFFERED);
        let service = self.clone();
        tokio::spawn(async move { service.send_log(id, after, &sender).await });
        Ok(receiver)
    }

    async fn send_log(&self, id: SandboxId, after: Cursor, reader: &mpsc::Sender<LogEvent>) {
        let mut following = self.host.logs.follow(id, after, PageLimit::default());
        let mut changes = self.change_feed(id);
        loop {
            changes.mark_seen();
            let page = following.next(Duration::ZERO).await.map_err(|error| error.to_string());
            let page = match page {
                Ok(page) if page.entries.is_empty() && !page.finished => tokio::select! {
                    biased;
                    () = reader.closed() => return,
                    () = self.closing() => Err("the server is shutting down; reconnect and continue".to_owned()),
                    () = changes.changed() => continue,
                },
                page => page,
            };
            match page {
                Ok(page) => {
                    for one in &page.entries {
                        if reader.send(LogEvent::Entry(entry(one))).await.is_err() {
                            return;
                        }
                    }
                    if page.finished {
                        return;
                    }
                }
                Err(message) => {
                    // A reader that is gone does not need it.
                    let _ = reader.send(LogEvent::Interrupted { message }).await;
                    return;
                }
            }
        }
    }

    /// When the last log entry was written. None: not known.
    pub(super) async fn last_activity(&self, id: SandboxId) -> Option<Timestamp> {
        self.host.logs.last_activity(id).await.ok().flatten()
    }

    pub(crate) async fn archive_logs(&self) {
        if let Err(error) = self.host.logs.move_all().await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "could not archive logs, retrying at the next interval");
        }
    }

    pub(crate) async fn expire(&self, keep: RetentionPeriods) {
        let now = self.now();
        let expired = async {
            let logs = self.host.logs.expire(keep, now).await?;
            Ok::<_, pinfold_logs::RetentionError>((
                logs,
                self.host.collection.artifacts.expire(keep, now).await?,
            ))
        };
        match expired.await {
            Ok((0, 0)) => {}
            Ok((logs, artifacts)) => tracing::info!(logs, artifacts, "removed expired logs and artifacts"),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    "could not remove expired logs and artifacts, retrying at the next interval"
                );
            }
        }
    }
}

fn entry(entry: &LogEntry) -> api::LogEntry {
    api::LogEntry {
        seq: entry.seq.to_string(),
        at: rfc3339(entry.at),
        source: match entry.source {
            Source::Stdout => LogSource::Stdout,
            Source::Stderr => LogSource::Stderr,
            Source::Control => LogSource::Control,
        },
        execution_id: entry.execution.map(|id| id.to_string()),
        generation: entry.generation.0,
        text: entry.text(),
        base64: entry.base64(),
    }
}

/// One hint per matching pattern, with the first matching entry.
fn hints(entries: &[LogEntry], quiet_ms: Option<u64>) -> Vec<LogHint> {
    let texts: Vec<_> = entries.iter().filter_map(LogEntry::text).collect();
    let found = LOG_PATTERNS.iter().filter_map(|known| {
        let seen = texts.iter().find(|text| known.matches(text))?;
        Some(LogHint { seen: shortened(seen), likely_cause: known.cause.to_owned() })
    });
    let quiet = quiet_ms.filter(|ms| *ms >= RECENT_MS).map(|ms| LogHint {
        seen: format!("nothing for {} s", ms / 1_000),
        likely_cause: "hung process".to_owned(),
    });
    found.chain(quiet).collect()
}

pub(super) fn shortened(text: &str) -> String {
    text.trim().chars().take(200).collect()
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NoSuchLog { sandbox } => Self::unknown_sandbox(sandbox),
            ReadError::Store(error) => error.into(),
            ReadError::Moving | ReadError::Interrupted { .. } => Self::unavailable(error),
            ReadError::Output { .. } | ReadError::Archive(_) => Self::internal(error),
        }
    }
}
