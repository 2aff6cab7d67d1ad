//! The provider as the engine sees it: what a command brings along is put into its body before it starts, and what is
//! to be kept is taken out before its end is told. Both happen within calls that the engine repeats after a crash: a
//! start that was not written down puts the files again, and an end that was not written down collects again. So the
//! outcome of a command is durable only after its artifacts are.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_engine::Clock;
use pinfold_lifecycle::{
    Cause, Command, Evidence, ExecutionId, ExecutionState, FileContent, FileToPut, Outcome, Probed,
    SandboxId, Seen, StopOutcome, Timestamp,
};
use pinfold_linux::LinuxProvider;
use pinfold_metrics::Meter;
use pinfold_provider::{
    AskBodyError, Capacity, DiscoverError, Discovered, Exec, ExecError, Fed, Feed, FeedError, FileError,
    Files, InstanceId, Killed, Provider, ResizeError, SignalError, Start, StartError, TerminalSize, Usage,
    WaitError, Whole,
};
use pinfold_store::{SqliteStore, Store, StoredExecution};

use crate::collecting::{Collection, WORK};
use crate::telemetry::Spans;

pub(crate) struct Attended {
    pub(crate) inner: Arc<LinuxProvider>,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) collection: Collection,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) spans: Spans,
}

/// How long artifacts may take that an execution leaves when it ends by itself.
const COLLECT: Duration = Duration::from_secs(30);
/// The same where it was killed: that the kill is proven is waited for, too.
const COLLECT_AFTER_KILL: Duration = Duration::from_secs(3);
/// What is left of an execution's time when its artifacts have had theirs, so that its end is told in time.
const TO_TELL_MS: u64 = 1_000;

impl Attended {
    /// A start that is asked for again must not undo what the command has done to its files since.
    async fn put_files(&self, body: InstanceId, exec: &Exec<'_>) -> Result<(), ExecError> {
        let files = &exec.command.luggage.files;
        if files.is_empty() {
            return Ok(());
        }
        match self.inner.signal(body, exec.execution, 0).await {
            Err(SignalError::NoSuchExecution) => {}
            Err(SignalError::Unreachable { why }) => return Err(self.unreachable(body, why).await),
            Ok(()) | Err(SignalError::NotRunning | SignalError::NoSuchSignal { .. }) => return Ok(()),
        }
        for (path, file) in files {
            let path = place(exec.command, path);
            self.put(body, &path, file).await.map_err(|error| not_put(&path, error))?;
        }
        Ok(())
    }

    /// A body that is not there starts nothing, for certain.
    async fn unreachable(&self, body: InstanceId, why: String) -> ExecError {
        match self.inner.stat(body, b"/").await {
            Err(FileError::NoSuchBody) => ExecError::Refused { cause: Cause::StartFailed, why },
            Ok(_) | Err(_) => ExecError::Unclear { why },
        }
    }

    async fn put(&self, body: InstanceId, path: &str, file: &FileToPut) -> Result<(), FileError> {
        if let Some((parent, _)) = path.rsplit_once('/')
            && !parent.is_empty()
        {
            self.inner.make_directory(body, parent.as_bytes(), true).await?;
        }
        let bytes = match &file.content {
            FileContent::Text(text) => text.clone().into_bytes(),
            FileContent::Base64(text) => {
                STANDARD.decode(text).map_err(|error| FileError::NoContent { why: error.to_string() })?
            }
        };
        let mode = if file.executable { 0o755 } else { 0o644 };
        self.inner.write(body, path.as_bytes(), Some(mode), &mut Whole::new(bytes)).await.map(drop)
    }

    /// A command that keeps nothing costs one look at its row.
    async fn collect(&self, body: InstanceId, execution: ExecutionId, within: Duration) {
        let stored = match self.store.execution(execution).await {
            Ok(Some(stored)) if !stored.command.luggage.artifacts.is_empty() => stored,
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(execution_id = %execution, %error, "artifacts are not collected");
                return;
            }
        };
        // One that ended at its limit has no time left; whoever kills it meanwhile collects them again.
        let at_least = |left: Duration| left.max(COLLECT_AFTER_KILL).min(within);
        let within = self.time_left(&stored).map_or(within, at_least);
        let files = self.inner.as_ref();
        self.collection.collect(files, body, &stored, within, self.clock.now()).await;
    }

    /// The end of such a one is told by whoever waits for it, with its artifacts: a look that came first would end its
    /// body with all that is in it.
    async fn is_to_be_collected(&self, execution: ExecutionId) -> bool {
        let stored = self.store.execution(execution).await;
        stored.is_ok_and(|stored| {
            stored.is_some_and(|it| {
                it.execution.outcome().is_none() && !it.command.luggage.artifacts.is_empty()
            })
        })
    }

    fn time_left(&self, stored: &StoredExecution) -> Option<Duration> {
        let ExecutionState::Running { watch, .. } = &stored.execution.state else { return None };
        let left_ms = watch.deadline.ms_since(self.clock.now());
        Some(Duration::from_millis(left_ms.saturating_sub(TO_TELL_MS)))
    }
}

/// From the root.
pub(crate) fn place(command: &Command, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    format!("{}/{path}", command.workdir.as_deref().unwrap_or(WORK).trim_end_matches('/'))
}

fn not_put(path: &str, error: FileError) -> ExecError {
    let why = format!("`{path}` could not be put there: {error}");
    match error {
        FileError::Busy { .. } | FileError::NoAnswer { .. } => ExecError::Unclear { why },
        FileError::Full { .. } => ExecError::Refused { cause: Cause::DiskLimit, why },
        FileError::BadPath { .. }
        | FileError::NotFound { .. }
        | FileError::NotADirectory { .. }
        | FileError::IsADirectory { .. }
        | FileError::NotAFile { .. }
        | FileError::Exists { .. }
        | FileError::NotEmpty { .. }
        | FileError::InUse { .. }
        | FileError::Denied { .. }
        | FileError::Failed { .. }
        | FileError::NoSuchBody
        | FileError::NoContent { .. } => ExecError::Refused { cause: Cause::StartFailed, why },
    }
}

#[async_trait]
impl Provider for Attended {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        self.inner.discover().await
    }

    async fn start(&self, start: Start<'_>) -> Result<(), StartError> {
        self.inner.start(start).await
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        let mut evidence = self.inner.observe(sandbox).await;
        if let Evidence::Present(bodies) = &mut evidence {
            for it in bodies.iter_mut().flat_map(|body| &mut body.executions) {
                if matches!(it.seen, Seen::Ended(_)) && self.is_to_be_collected(it.execution).await {
                    it.seen = Seen::Running { last_activity_at: self.clock.now() };
                }
            }
        }
        evidence
    }

    async fn probe(&self, body: InstanceId) -> Probed {
        let began = tokio::time::Instant::now();
        let probed = self.spans.probing(body, self.inner.probe(body)).await;
        self.meter.probed(&probed, began.elapsed());
        probed
    }

    async fn ping(&self, body: InstanceId) -> Probed {
        let probed = self.inner.ping(body).await;
        self.meter.pinged(&probed);
        probed
    }

    async fn exec(&self, body: InstanceId, exec: Exec<'_>) -> Result<(), ExecError> {
        self.put_files(body, &exec).await?;
        self.inner.exec(body, exec).await
    }

    async fn wait(&self, body: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        let outcome = self.inner.wait(body, execution).await?;
        self.collect(body, execution, COLLECT).await;
        Ok(outcome)
    }

    async fn kill(&self, body: InstanceId, execution: ExecutionId) -> Killed {
        let killed = self.inner.kill(body, execution).await;
        if killed == Killed::Gone {
            self.collect(body, execution, COLLECT_AFTER_KILL).await;
        }
        killed
    }

    async fn signal(&self, body: InstanceId, execution: ExecutionId, signal: i32) -> Result<(), SignalError> {
        self.inner.signal(body, execution, signal).await
    }

    async fn feed(&self, body: InstanceId, execution: ExecutionId, feed: Feed<'_>) -> Result<Fed, FeedError> {
        self.inner.feed(body, execution, feed).await
    }

    async fn resize(
        &self,
        body: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError> {
        self.inner.resize(body, execution, size).await
    }

    async fn stop(&self, body: InstanceId, grace_ms: u64) -> StopOutcome {
        self.inner.stop(body, grace_ms).await
    }

    async fn usage(&self, body: InstanceId) -> Result<Usage, AskBodyError> {
        self.inner.usage(body).await
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        self.inner.capacity().await
    }

    async fn keep_alive(&self, body: InstanceId, ends_at: Timestamp) -> Result<(), AskBodyError> {
        self.inner.keep_alive(body, ends_at).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_at_the_root_or_where_the_command_starts() {
        let here = Command { workdir: Some("/srv/".into()), ..Command::default() };

        assert_eq!(place(&here, "a/b"), "/srv/a/b");
        assert_eq!(place(&here, "/a/b"), "/a/b");
        assert_eq!(place(&Command::default(), "a"), "/workspace/a");
    }
}
