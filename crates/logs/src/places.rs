//! Where a log lies: in the keepers' files on this host, or in the object store. A small file says that it was moved,
//! and readers go by that file alone: it comes after all that was written there, and before anything is removed here.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use pinfold_lifecycle::{SandboxId, Timestamp};

/// The directory of all output on this host, as the provider keeps it.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    outputs: PathBuf,
    moved: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Here(PathBuf),
    Moved,
    /// Not on this host, or it never had any output.
    NotHere,
}

impl Places {
    pub(crate) fn new(outputs: &Path) -> Self {
        Self { outputs: outputs.to_owned(), moved: outputs.join("moved") }
    }

    pub(crate) fn of(&self, sandbox: SandboxId) -> io::Result<Place> {
        if self.mark(sandbox).try_exists()? {
            return Ok(Place::Moved);
        }
        let outputs = self.outputs_of(sandbox);
        Ok(if outputs.try_exists()? { Place::Here(outputs) } else { Place::NotHere })
    }

    pub(crate) fn outputs_of(&self, sandbox: SandboxId) -> PathBuf {
        self.outputs.join(sandbox.to_string())
    }

    fn mark(&self, sandbox: SandboxId) -> PathBuf {
        self.moved.join(sandbox.to_string())
    }

    /// Durable when this returns.
    pub(crate) fn mark_moved(&self, sandbox: SandboxId) -> io::Result<()> {
        if !self.moved.try_exists()? {
            fs::DirBuilder::new().mode(0o700).recursive(true).create(&self.moved)?;
            File::open(&self.outputs)?.sync_all()?;
        }
        File::create(self.mark(sandbox))?.sync_all()?;
        File::open(&self.moved)?.sync_all()
    }

    pub(crate) fn forget(&self, sandbox: SandboxId) -> io::Result<()> {
        or_gone(fs::remove_file(self.mark(sandbox)))
    }

    /// The keepers' files. Only when no keeper of it lives, and nobody needs them.
    pub(crate) fn remove_outputs(&self, sandbox: SandboxId) -> io::Result<()> {
        or_gone(fs::remove_dir_all(self.outputs_of(sandbox)))
    }

    /// When anything was last written to a file whose name begins with one of these.
    pub(crate) fn last_written(
        &self,
        sandbox: SandboxId,
        beginnings: &[String],
    ) -> io::Result<Option<Timestamp>> {
        let mut last = None;
        for entry in entries_of(&self.outputs_of(sandbox))? {
            let entry = entry?;
            let name = entry.file_name();
            let is_one = name.to_str().is_some_and(|name| beginnings.iter().any(|it| name.starts_with(it)));
            // What has made room since was not the last.
            if is_one && let Ok(metadata) = entry.metadata() {
                last = last.max(Some(modified(&metadata)));
            }
        }
        Ok(last)
    }

    /// When anything of its output was last changed.
    pub(crate) fn last_changed(&self, sandbox: SandboxId) -> io::Result<Timestamp> {
        let directory = modified(&fs::metadata(self.outputs_of(sandbox))?);
        Ok(self.last_written(sandbox, &[String::new()])?.unwrap_or_default().max(directory))
    }

    /// What its output takes here.
    pub(crate) fn bytes_of(&self, sandbox: SandboxId) -> io::Result<u64> {
        let mut bytes = 0;
        for entry in entries_of(&self.outputs_of(sandbox))? {
            bytes += entry?.metadata().map_or(0, |metadata| metadata.len());
        }
        Ok(bytes)
    }

    /// Sandboxes with output on this host.
    pub(crate) fn here(&self) -> io::Result<Vec<SandboxId>> {
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

/// None of what is not there.
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

fn or_gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
