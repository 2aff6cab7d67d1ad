//! The log of a sandbox: a page of it, or all that comes, and what is done with logs in the course of time.

use std::sync::Arc;
use std::time::Duration;

use pinfold_api::{LogEntry, LogHint, LogPage, LogSource};
use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_logs::{Cursor, Entry, Keep, Limit, Page, ReadError, Source};
use pinfold_store::{Row, Store};
use tokio::sync::mpsc;

use super::known_messages::KNOWN_MESSAGES;
use super::words::moment;
use super::{Failure, Service};

/// Events that wait for a slow reader. More wait in the log.
const AHEAD: usize = 64;
/// A sandbox at work that has said nothing for so long is hung, mostly.
const RECENT_MS: u64 = 60_000;

/// What a stream of a log carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEvent {
    Entry(LogEntry),
    /// It ends here although more may come: read on after the last entry.
    Broken {
        message: String,
    },
}

impl Service {
    pub async fn log(&self, id: SandboxId, after: &Cursor, entries: usize) -> Result<LogPage, Failure> {
        let limit = Limit { entries, ..Limit::default() };
        let page = self.host.logs.read(id, after, limit).await?;
        let works = match self.host.store.load(id).await? {
            Some(Row::Readable(stored)) => !stored.sandbox.executions.is_empty(),
            Some(Row::Unreadable(_)) | None => false,
        };
        let quiet_ms = page.last_activity.filter(|_| works).map(|last| self.now().ms_since(last));
        let hints = hints(&page.entries, quiet_ms);
        let Page { last_activity, entries, next, more, over } = page;
        Ok(LogPage {
            sandbox_id: id.to_string(),
            last_activity: last_activity.map(moment),
            entries: entries.iter().map(entry).collect(),
            next: next.to_string(),
            more,
            over,
            hints,
        })
    }

    /// Follows it until the sandbox is gone, or as long as somebody reads.
    pub async fn follow_log(
        self: &Arc<Self>,
        id: SandboxId,
        after: Cursor,
    ) -> Result<mpsc::Receiver<LogEvent>, Failure> {
        self.host.logs.last_activity(id).await?;
        let (sender, receiver) = mpsc::channel(AHEAD);
        let service = self.clone();
        tokio::spawn(async move { service.pump_log(id, after, &sender).await });
        Ok(receiver)
    }

    async fn pump_log(&self, id: SandboxId, after: Cursor, reader: &mpsc::Sender<LogEvent>) {
        let mut following = self.host.logs.follow(id, after, Limit::default());
        let mut news = self.news_of(id);
        loop {
            news.catch_up();
            let page = following.next(Duration::ZERO).await.map_err(|error| error.to_string());
            let page = match page {
                Ok(page) if page.entries.is_empty() && !page.over => tokio::select! {
                    biased;
                    () = reader.closed() => return,
                    () = self.closing() => Err("the server is being stopped; come back and read on".to_owned()),
                    () = news.come() => continue,
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
                    if page.over {
                        return;
                    }
                }
                Err(message) => {
                    // Who is gone does not need it.
                    let _ = reader.send(LogEvent::Broken { message }).await;
                    return;
                }
            }
        }
    }

    /// When anything was last written or done. None: nobody knows.
    pub(super) async fn last_activity(&self, id: SandboxId) -> Option<Timestamp> {
        self.host.logs.last_activity(id).await.ok().flatten()
    }

    pub(crate) async fn move_logs(&self) {
        if let Err(error) = self.host.logs.move_all().await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "logs stay where they are for now");
        }
    }

    pub(crate) async fn expire(&self, keep: Keep) {
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
            Ok((logs, artifacts)) => tracing::info!(logs, artifacts, "old ones were removed"),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "old logs and artifacts stay for now");
            }
        }
    }
}

fn entry(entry: &Entry) -> LogEntry {
    LogEntry {
        seq: entry.seq.to_string(),
        at: moment(entry.at),
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

/// Each pattern once, with the entry that has it.
fn hints(entries: &[Entry], quiet_ms: Option<u64>) -> Vec<LogHint> {
    let texts: Vec<_> = entries.iter().filter_map(Entry::text).collect();
    let found = KNOWN_MESSAGES.iter().filter_map(|known| {
        let seen = texts.iter().find(|text| known.is_in(text))?;
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
            ReadError::Moving | ReadError::Interrupted => Self::unavailable(error),
            ReadError::Output { .. } | ReadError::Archive(_) => Self::internal(error),
        }
    }
}
