//! Finds a log: in the provider's output on this host, or in the object store. A marker file says that a log was moved, and
//! readers check only that file. It is written after everything is in the object store, and before anything is removed
//! here.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use pinfold_lifecycle::SandboxId;

/// The marker files of this host.
#[derive(Debug, Clone)]
pub(crate) struct MovedLogs {
    directory: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogLocation {
    Here,
    Moved,
    /// Not on this host, or it never had output.
    NotHere,
}

impl MovedLogs {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    pub(crate) fn contains(&self, sandbox: SandboxId) -> io::Result<bool> {
        self.marker(sandbox).try_exists()
    }

    fn marker(&self, sandbox: SandboxId) -> PathBuf {
        self.directory.join(sandbox.to_string())
    }

    /// Durable when this returns.
    pub(crate) fn mark(&self, sandbox: SandboxId) -> io::Result<()> {
        if !self.directory.try_exists()? {
            pinfold_private_files::make_directory(&self.directory)?;
            File::open(self.directory.parent().unwrap_or(Path::new("/")))?.sync_all()?;
        }
        pinfold_private_files::create(&self.marker(sandbox))?.sync_all()?;
        File::open(&self.directory)?.sync_all()
    }

    pub(crate) fn remove_marker(&self, sandbox: SandboxId) -> io::Result<()> {
        match fs::remove_file(self.marker(sandbox)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    pub(crate) fn list(&self) -> io::Result<Vec<SandboxId>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            ids.extend(name.to_str().and_then(|name| name.parse::<SandboxId>().ok()));
        }
        ids.sort_unstable();
        Ok(ids)
    }
}
