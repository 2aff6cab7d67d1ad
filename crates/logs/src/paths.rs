//! Finds a log: in the keepers' files on this host, or in the object store. A marker file says that a log was moved, and
//! readers check only that file. It is written after everything is in the object store, and before anything is removed
//! here.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use pinfold_lifecycle::{SandboxId, Timestamp};

/// The directories of output and of marker files on this host.
#[derive(Debug, Clone)]
pub(crate) struct LogPaths {
    outputs: PathBuf,
    moved: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogLocation {
    Here(PathBuf),
    Moved,
    /// Not on this host, or it never had output.
    NotHere,
}

impl LogPaths {
    pub(crate) fn new(outputs: &Path) -> Self {
        Self { outputs: outputs.to_owned(), moved: outputs.join("moved") }
    }

    pub(crate) fn of(&self, sandbox: SandboxId) -> io::Result<LogLocation> {
        if self.marker(sandbox).try_exists()? {
            return Ok(LogLocation::Moved);
        }
        let outputs = self.outputs_of(sandbox);
        Ok(if outputs.try_exists()? { LogLocation::Here(outputs) } else { LogLocation::NotHere })
    }

    pub(crate) fn outputs_of(&self, sandbox: SandboxId) -> PathBuf {
        self.outputs.join(sandbox.to_string())
    }

    fn marker(&self, sandbox: SandboxId) -> PathBuf {
        self.moved.join(sandbox.to_string())
    }

    /// Durable when this returns.
    pub(crate) fn mark_moved(&self, sandbox: SandboxId) -> io::Result<()> {
        if !self.moved.try_exists()? {
            fs::DirBuilder::new().mode(0o700).recursive(true).create(&self.moved)?;
            File::open(&self.outputs)?.sync_all()?;
        }
        File::create(self.marker(sandbox))?.sync_all()?;
        File::open(&self.moved)?.sync_all()
    }

    pub(crate) fn remove_marker(&self, sandbox: SandboxId) -> io::Result<()> {
        ignore_missing(fs::remove_file(self.marker(sandbox)))
    }

    /// Removes the keepers' files. The caller knows that no keeper of the sandbox lives and that the log is archived or
    /// expired.
    pub(crate) fn remove_outputs(&self, sandbox: SandboxId) -> io::Result<()> {
        ignore_missing(fs::remove_dir_all(self.outputs_of(sandbox)))
    }

    /// When a file whose name begins with one of these was last written.
    pub(crate) fn last_written(
        &self,
        sandbox: SandboxId,
        prefixes: &[String],
    ) -> io::Result<Option<Timestamp>> {
        let mut last = None;
        for entry in entries_of(&self.outputs_of(sandbox))? {
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

    /// When its output was last changed.
    pub(crate) fn last_changed(&self, sandbox: SandboxId) -> io::Result<Timestamp> {
        let directory = modified(&fs::metadata(self.outputs_of(sandbox))?);
        Ok(self.last_written(sandbox, &[String::new()])?.unwrap_or_default().max(directory))
    }

    /// The bytes of its output on this host.
    pub(crate) fn bytes_of(&self, sandbox: SandboxId) -> io::Result<u64> {
        let mut bytes = 0;
        for entry in entries_of(&self.outputs_of(sandbox))? {
            bytes += entry?.metadata().map_or(0, |metadata| metadata.len());
        }
        Ok(bytes)
    }

    /// Sandboxes with output on this host.
    pub(crate) fn sandboxes_with_output(&self) -> io::Result<Vec<SandboxId>> {
        ids_in(&self.outputs)
    }

    pub(crate) fn moved(&self) -> io::Result<Vec<SandboxId>> {
        ids_in(&self.moved)
    }
}

fn ids_in(directory: &Path) -> io::Result<Vec<SandboxId>> {
    let mut ids = Vec::new();
    for entry in entries_of(directory)? {
        let name = entry?.file_name();
        ids.extend(name.to_str().and_then(|name| name.parse::<SandboxId>().ok()));
    }
    ids.sort_unstable();
    Ok(ids)
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

fn ignore_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
