//! The output of executions on this host: a directory per sandbox, with the files that its keepers wrote. It outlives the
//! instances, until the archive of logs or their retention removes it.

mod directory_watch;
mod watch;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_lifecycle::{ExecutionId, SandboxId, Timestamp};
use pinfold_output_log::LogReader;
use pinfold_provider::{
    LockOutcome, LockedOutput, OutputLogs, OutputReader, OutputWatch, ReadPosition, StoredOutput,
};
use rustix::fs::FlockOperation;

use directory_watch::DirectoryWatcher;
use watch::SandboxWatch;

/// The directory of all output.
pub struct OutputDirectory {
    root: PathBuf,
    watcher: Arc<DirectoryWatcher>,
}

impl OutputDirectory {
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root, watcher: Arc::default() }
    }

    pub(crate) fn of(&self, sandbox: SandboxId) -> PathBuf {
        self.root.join(sandbox.to_string())
    }

    pub(crate) fn log_of(&self, sandbox: SandboxId, execution: ExecutionId) -> LogReader {
        LogReader::new(self.of(sandbox), &execution.to_string())
    }
}

impl OutputLogs for OutputDirectory {
    fn reader(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
        after: ReadPosition,
    ) -> Box<dyn OutputReader> {
        let ReadPosition { seq, bytes } = after;
        Box::new(LogReader::after(self.of(sandbox), &execution.to_string(), seq, bytes))
    }

    fn watch(&self, sandbox: SandboxId) -> Box<dyn OutputWatch> {
        Box::new(SandboxWatch::new(self.watcher.clone(), self.of(sandbox)))
    }

    fn sandboxes(&self) -> io::Result<Vec<SandboxId>> {
        let mut ids = Vec::new();
        for entry in entries_of(&self.root)? {
            let name = entry?.file_name();
            ids.extend(name.to_str().and_then(|name| name.parse::<SandboxId>().ok()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    fn exists(&self, sandbox: SandboxId) -> io::Result<bool> {
        self.of(sandbox).try_exists()
    }

    fn stored(&self, sandbox: SandboxId) -> io::Result<Option<StoredOutput>> {
        let directory = self.of(sandbox);
        let metadata = match fs::metadata(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata?,
        };
        let mut stored = StoredOutput { bytes: 0, last_changed: modified(&metadata) };
        for entry in entries_of(&directory)? {
            // A file that is missing by now holds nothing.
            let Ok(metadata) = entry?.metadata() else { continue };
            stored.bytes += metadata.len();
            stored.last_changed = stored.last_changed.max(modified(&metadata));
        }
        Ok(Some(stored))
    }

    fn last_written(&self, sandbox: SandboxId, executions: &[ExecutionId]) -> io::Result<Option<Timestamp>> {
        let prefixes: Vec<_> = executions.iter().map(|execution| format!("{execution}.")).collect();
        let mut last = None;
        for entry in entries_of(&self.of(sandbox))? {
            let entry = entry?;
            let name = entry.file_name();
            let matches = name.to_str().is_some_and(|name| prefixes.iter().any(|it| name.starts_with(it)));
            // A file that is missing by now was not the last one.
            if matches && let Ok(metadata) = entry.metadata() {
                last = last.max(Some(modified(&metadata)));
            }
        }
        Ok(last)
    }

    fn lock(&self, sandbox: SandboxId) -> io::Result<LockOutcome> {
        let directory = self.of(sandbox);
        let lock = match File::open(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LockOutcome::Nothing),
            opened => opened?,
        };
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(LockOutcome::Locked(Box::new(LockedDirectory { directory, _lock: lock }))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(LockOutcome::Busy),
            Err(error) => Err(error.into()),
        }
    }
}

struct LockedDirectory {
    directory: PathBuf,
    _lock: File,
}

impl LockedOutput for LockedDirectory {
    fn remove(&mut self) -> io::Result<()> {
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// The entries of a directory; none if it is missing.
fn entries_of(directory: &Path) -> io::Result<impl Iterator<Item = io::Result<fs::DirEntry>>> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(Some(entries).into_iter().flatten()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None.into_iter().flatten()),
        Err(error) => Err(error),
    }
}

fn modified(metadata: &fs::Metadata) -> Timestamp {
    Timestamp(metadata.mtime() * 1_000 + metadata.mtime_nsec() / 1_000_000)
}
