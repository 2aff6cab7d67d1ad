//! The provider decorator that the engine uses: it writes an execution's input files before the start and collects
//! its artifacts before the end is reported. Both happen inside calls that the engine repeats after a crash, so an
//! outcome is durable only after its artifacts are.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_engine::Clock;
use pinfold_lifecycle::{
    Cause, Command, Evidence, ExecutionId, ExecutionState, FileContent, InputFile, Outcome, ProbeResult,
    ProcessObservation, SandboxId, StopOutcome, Timestamp,
};
use pinfold_linux::LinuxProvider;
use pinfold_metrics::ProcessMetrics;
use pinfold_provider::{
    Capacity, DiscoverError, Discovered, ExecError, ExecRequest, FileError, Files, InMemoryContent,
    InstanceError, InstanceId, KillOutcome, Provider, ResizeError, SignalError, StartError, StartRequest,
    StdinError, StdinWrite, TerminalSize, Usage, WaitError, WriteResult,
};
use pinfold_store::{Store, StoredExecution};
use pinfold_store_sqlite::SqliteStore;

use crate::collecting::{Collection, WORK};
use pinfold_notify::telemetry::Spans;

pub(crate) struct Attended {
    pub(crate) inner: Arc<LinuxProvider>,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) collection: Collection,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) meter: Arc<ProcessMetrics>,
    pub(crate) spans: Spans,
}

/// Time limit for collecting artifacts after an execution ended by itself.
const COLLECT: Duration = Duration::from_secs(30);
/// The same after a kill: the proof of the kill waits for it.
const COLLECT_AFTER_KILL: Duration = Duration::from_secs(3);
/// Part of an execution's time reserved for reporting its end.
const TO_TELL_MS: u64 = 1_000;

impl Attended {
    /// A repeated start must not overwrite what the command has changed since.
    async fn put_files(&self, instance: InstanceId, exec: &ExecRequest<'_>) -> Result<(), ExecError> {
        let files = &exec.command.execution_files.files;
        if files.is_empty() {
            return Ok(());
        }
        match self.inner.signal(instance, exec.execution, 0).await {
            Err(SignalError::NoSuchExecution) => {}
            Err(SignalError::Unreachable { why }) => return Err(self.unreachable(instance, why).await),
            Ok(()) | Err(SignalError::NotRunning | SignalError::NoSuchSignal { .. }) => return Ok(()),
        }
        for (path, file) in files {
            let path = place(exec.command, path);
            self.put(instance, &path, file).await.map_err(|error| not_put(&path, error))?;
        }
        Ok(())
    }

    /// An instance that does not exist certainly started nothing.
    async fn unreachable(&self, instance: InstanceId, why: String) -> ExecError {
        match self.inner.stat(instance, b"/").await {
            Err(FileError::NoSuchInstance) => ExecError::Refused { cause: Cause::StartFailed, why },
            Ok(_) | Err(_) => ExecError::Unclear { why },
        }
    }

    async fn put(&self, instance: InstanceId, path: &str, file: &InputFile) -> Result<(), FileError> {
        if let Some((parent, _)) = path.rsplit_once('/')
            && !parent.is_empty()
        {
            self.inner.make_directory(instance, parent.as_bytes(), true).await?;
        }
        let bytes = match &file.content {
            FileContent::Text(text) => text.clone().into_bytes(),
            FileContent::Base64(text) => {
                STANDARD.decode(text).map_err(|error| FileError::NoContent { why: error.to_string() })?
            }
        };
        let mode = if file.executable { 0o755 } else { 0o644 };
        self.inner
            .write(instance, path.as_bytes(), Some(mode), &mut InMemoryContent::new(bytes))
            .await
            .map(drop)
    }

    /// A command without artifacts costs one row read.
    async fn collect(&self, instance: InstanceId, execution: ExecutionId, within: Duration) {
        let stored = match self.store.execution(execution).await {
            Ok(Some(stored)) if !stored.command.execution_files.artifacts.is_empty() => stored,
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(execution_id = %execution, %error, "could not read the execution, its artifacts are not collected");
                return;
            }
        };
        // An execution that ended at its limit has no time left; the kill collects its artifacts again.
        let at_least = |left: Duration| left.max(COLLECT_AFTER_KILL).min(within);
        let within = self.time_left(&stored).map_or(within, at_least);
        let files = self.inner.as_ref();
        self.collection.collect(files, instance, &stored, within, self.clock.now()).await;
    }

    /// The waiter reports the end of such an execution, with its artifacts. An observation that came first would end
    /// the instance and its files.
    async fn is_to_be_collected(&self, execution: ExecutionId) -> bool {
        let stored = self.store.execution(execution).await;
        stored.is_ok_and(|stored| {
            stored.is_some_and(|it| {
                it.execution.outcome().is_none() && !it.command.execution_files.artifacts.is_empty()
            })
        })
    }

    fn time_left(&self, stored: &StoredExecution) -> Option<Duration> {
        let ExecutionState::Running { watch, .. } = &stored.execution.state else { return None };
        let left_ms = watch.deadline.ms_since(self.clock.now());
        Some(Duration::from_millis(left_ms.saturating_sub(TO_TELL_MS)))
    }
}

/// The absolute path of a file of `command`.
pub(crate) fn place(command: &Command, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    format!("{}/{path}", command.workdir.as_deref().unwrap_or(WORK).trim_end_matches('/'))
}

fn not_put(path: &str, error: FileError) -> ExecError {
    let why = format!("could not write input file `{path}`: {error}");
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
        | FileError::NoSuchInstance
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

    async fn start(&self, start: StartRequest<'_>) -> Result<(), StartError> {
        self.inner.start(start).await
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        let mut evidence = self.inner.observe(sandbox).await;
        if let Evidence::Present(instances) = &mut evidence {
            for it in instances.iter_mut().flat_map(|instance| &mut instance.executions) {
                if matches!(it.process, ProcessObservation::Ended(_))
                    && self.is_to_be_collected(it.execution).await
                {
                    it.process = ProcessObservation::Running { last_activity_at: self.clock.now() };
                }
            }
        }
        evidence
    }

    async fn probe(&self, instance: InstanceId) -> ProbeResult {
        let began = tokio::time::Instant::now();
        let probed = self.spans.probing(instance, self.inner.probe(instance)).await;
        self.meter.probed(&probed, began.elapsed());
        probed
    }

    async fn ping(&self, instance: InstanceId) -> ProbeResult {
        let probed = self.inner.ping(instance).await;
        self.meter.pinged(&probed);
        probed
    }

    async fn exec(&self, instance: InstanceId, exec: ExecRequest<'_>) -> Result<(), ExecError> {
        self.put_files(instance, &exec).await?;
        self.inner.exec(instance, exec).await
    }

    async fn wait(&self, instance: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        let outcome = self.inner.wait(instance, execution).await?;
        self.collect(instance, execution, COLLECT).await;
        Ok(outcome)
    }

    async fn kill(&self, instance: InstanceId, execution: ExecutionId) -> KillOutcome {
        let killed = self.inner.kill(instance, execution).await;
        if killed == KillOutcome::Gone {
            self.collect(instance, execution, COLLECT_AFTER_KILL).await;
        }
        killed
    }

    async fn signal(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        signal: i32,
    ) -> Result<(), SignalError> {
        self.inner.signal(instance, execution, signal).await
    }

    async fn write_stdin(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        feed: StdinWrite<'_>,
    ) -> Result<WriteResult, StdinError> {
        self.inner.write_stdin(instance, execution, feed).await
    }

    async fn resize(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError> {
        self.inner.resize(instance, execution, size).await
    }

    async fn stop(&self, instance: InstanceId, grace_ms: u64) -> StopOutcome {
        self.inner.stop(instance, grace_ms).await
    }

    async fn usage(&self, instance: InstanceId) -> Result<Usage, InstanceError> {
        self.inner.usage(instance).await
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        self.inner.capacity().await
    }

    async fn keep_alive(&self, instance: InstanceId, ends_at: Timestamp) -> Result<(), InstanceError> {
        self.inner.keep_alive(instance, ends_at).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_starts_at_the_working_directory() {
        let here = Command { workdir: Some("/srv/".into()), ..Command::default() };

        assert_eq!(place(&here, "a/b"), "/srv/a/b");
        assert_eq!(place(&here, "/a/b"), "/a/b");
        assert_eq!(place(&Command::default(), "a"), "/workspace/a");
    }
}
