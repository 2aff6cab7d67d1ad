//! Input files and artifacts of executions: the effects that write files before a process starts, and that hand its
//! artifacts to the [`ArtifactCollector`] after it has ended. Both may be repeated.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_lifecycle::{
    Cause, Command, Effect, Event, ExecutionId, ExecutionState, Fence, FileContent, InputFile, Timestamp,
};
use pinfold_provider::{ExecError, FileError, Files, InMemoryContent, InstanceId, Provider, SignalError};
use pinfold_store::StoredExecution;

use crate::engine::Inner;
use crate::perform::RETRY_MS;

/// Where relative paths of a command without a working directory begin.
const WORKING_DIRECTORY: &str = "/workspace";
/// Part of a collection's time that is left for reporting it.
const REPORT_MS: u64 = 500;

/// Stores artifacts outside of the instance.
#[async_trait]
pub trait ArtifactCollector: Send + Sync + 'static {
    /// Stores the artifacts of an execution whose process has ended. Returns by `until` with what it has stored. A
    /// repeated call replaces the artifacts of an earlier one.
    async fn collect(
        &self,
        files: &dyn Files,
        instance: InstanceId,
        execution: &StoredExecution,
        until: Timestamp,
    );
}

/// For an engine without an artifact store: artifacts are discarded.
#[derive(Debug, Default)]
pub struct DiscardArtifacts;

#[async_trait]
impl ArtifactCollector for DiscardArtifacts {
    async fn collect(&self, _: &dyn Files, _: InstanceId, _: &StoredExecution, _: Timestamp) {}
}

/// The absolute path of a file of `command`.
#[must_use]
pub fn file_path(command: &Command, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    format!("{}/{path}", command.workdir.as_deref().unwrap_or(WORKING_DIRECTORY).trim_end_matches('/'))
}

impl Inner {
    pub(crate) async fn put_files(
        &self,
        instance: InstanceId,
        fence: Fence,
        execution: ExecutionId,
    ) -> Option<Event> {
        loop {
            if let Some(read) = self.command_of(instance.sandbox, execution).await {
                match put_all(self.provider.as_ref(), instance, execution, &read.command).await {
                    Ok(()) => return Some(Event::FilesPut { fence, execution }),
                    Err(ExecError::Refused { cause, why }) => {
                        return Some(Event::ExecutionRefused { fence, execution, cause, why });
                    }
                    Err(ExecError::Unclear { .. }) => {}
                }
            }
            self.pause(RETRY_MS).await;
        }
    }

    /// None: another node collects them, or the execution has ended. Its artifacts must not be replaced now.
    pub(crate) async fn collect(
        &self,
        instance: InstanceId,
        effect: &Effect,
        execution: ExecutionId,
    ) -> Option<Event> {
        let fence = effect.pending.fence;
        let until = Timestamp(effect.pending.deadline.0.saturating_sub_unsigned(REPORT_MS));
        loop {
            match self.store.execution(execution).await {
                Ok(Some(stored)) if awaits_collection(&stored, fence) => {
                    self.artifacts.collect(self.provider.files(), instance, &stored, until).await;
                    return Some(Event::Collected { fence, execution });
                }
                Ok(_) => return None,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(execution_id = %execution, error, "reading the execution failed, retrying before its artifacts are collected");
                }
            }
            self.pause(RETRY_MS).await;
        }
    }
}

fn awaits_collection(stored: &StoredExecution, fence: Fence) -> bool {
    matches!(&stored.execution.state, ExecutionState::Collecting { pending, .. } if pending.fence == fence)
}

/// Writes the input files of an execution, unless it has started already: its process may have changed them.
async fn put_all(
    provider: &dyn Provider,
    instance: InstanceId,
    execution: ExecutionId,
    command: &Command,
) -> Result<(), ExecError> {
    match provider.signal(instance, execution, 0).await {
        Err(SignalError::NoSuchExecution) => {}
        Err(SignalError::Unreachable { why }) => return Err(unreachable(provider, instance, why).await),
        Ok(()) | Err(SignalError::NotRunning | SignalError::NoSuchSignal { .. }) => return Ok(()),
    }
    for (path, file) in &command.execution_files.files {
        let path = file_path(command, path);
        put(provider.files(), instance, &path, file).await.map_err(|error| not_put(&path, error))?;
    }
    Ok(())
}

/// An instance that does not exist certainly started nothing.
async fn unreachable(provider: &dyn Provider, instance: InstanceId, why: String) -> ExecError {
    match provider.files().stat(instance, b"/").await {
        Err(FileError::NoSuchInstance) => ExecError::Refused { cause: Cause::StartFailed, why },
        Ok(_) | Err(_) => ExecError::Unclear { why },
    }
}

async fn put(files: &dyn Files, instance: InstanceId, path: &str, file: &InputFile) -> Result<(), FileError> {
    if let Some((parent, _)) = path.rsplit_once('/')
        && !parent.is_empty()
    {
        files.make_directory(instance, parent.as_bytes(), true).await?;
    }
    let bytes = match &file.content {
        FileContent::Text(text) => text.clone().into_bytes(),
        FileContent::Base64(text) => {
            STANDARD.decode(text).map_err(|error| FileError::NoContent { why: error.to_string() })?
        }
    };
    let mode = if file.executable { 0o755 } else { 0o644 };
    files.write(instance, path.as_bytes(), Some(mode), &mut InMemoryContent::new(bytes)).await.map(drop)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use pinfold_lifecycle::{
        ExecutionFiles, ExecutionLimits, Generation, Guards, SandboxId, Spec, Timestamp as Time,
    };
    use pinfold_provider::fake::{FakeProvider, NoFaults};
    use pinfold_provider::{ExecRequest, StartPermit, StartRequest};

    use super::*;

    struct Permitted;

    #[async_trait]
    impl StartPermit for Permitted {
        async fn still_wanted(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn input_files_are_put_before_the_start_and_never_after_it() {
        let provider = FakeProvider::new(Arc::default(), Arc::new(NoFaults), Guards::default());
        let instance = InstanceId { sandbox: SandboxId(1), generation: Generation(1) };
        let (spec, ends_at) = (&Spec::default(), Time(1_000));
        let start = StartRequest { instance, spec, ends_at, ends_with_caller: false, permit: &Permitted };
        provider.start(start).await.unwrap();
        let file = InputFile { content: FileContent::Text("brought".into()), executable: false };
        let execution_files =
            ExecutionFiles { files: BTreeMap::from([("a".to_owned(), file)]), ..ExecutionFiles::default() };
        let command = Command { argv: vec!["hang".into()], execution_files, ..Command::default() };
        let put = || put_all(&provider, instance, ExecutionId(1), &command);

        put().await.unwrap();
        let before = provider.stat(instance, b"/workspace/a").await.map(|file| file.size);
        let exec =
            ExecRequest { execution: ExecutionId(1), command: &command, limits: ExecutionLimits::default() };
        provider.exec(instance, exec).await.unwrap();
        let changed = &mut InMemoryContent::new(b"changed by it".to_vec());
        provider.write(instance, b"/workspace/a", None, changed).await.unwrap();
        put().await.unwrap();
        let after = provider.stat(instance, b"/workspace/a").await.map(|file| file.size);

        assert_eq!((before, after), (Ok(7), Ok(13)));
    }

    #[test]
    fn a_relative_path_starts_at_the_working_directory() {
        let here = Command { workdir: Some("/srv/".into()), ..Command::default() };

        assert_eq!(file_path(&here, "a/b"), "/srv/a/b");
        assert_eq!(file_path(&here, "/a/b"), "/a/b");
        assert_eq!(file_path(&Command::default(), "a"), "/workspace/a");
    }
}
