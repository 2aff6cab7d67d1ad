//! The files by which commands find a server: one of its own in `servers/`, and `server.json`, which names the first of
//! several servers. When that one ends, it names another one that lives. Changes are made under a lock on `servers/`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pinfold_client::{ServerFile, process_started};
use pinfold_private_files::{self as private_files, OwnerLiveness};

/// Removed on drop.
pub(crate) struct ServerAnnouncement {
    data: PathBuf,
    own: ServerFile,
}

impl ServerAnnouncement {
    pub(crate) fn write(data: &Path, address: SocketAddr, started_at: String) -> anyhow::Result<Self> {
        let pid = std::process::id();
        let process_started =
            process_started(pid).context("could not read the start time of this process")?;
        let own = ServerFile { address: format!("http://{address}"), pid, process_started, started_at };
        let announcement = Self { data: data.to_owned(), own };
        announcement
            .add()
            .with_context(|| format!("could not announce the server in `{}`", data.display()))?;
        Ok(announcement)
    }

    fn add(&self) -> io::Result<()> {
        let directory = self.directory();
        private_files::make_directory(&directory)?;
        let _lock = self.lock()?;
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if private_files::owner_liveness(&entry.file_name().to_string_lossy()) == OwnerLiveness::Gone {
                fs::remove_file(entry.path())?;
            }
        }
        replace(&self.own_path(), &self.own)?;
        match ServerFile::read(&self.data) {
            Ok(Some(first)) if first.is_alive() => Ok(()),
            Ok(_) | Err(_) => replace(&self.data.join(ServerFile::NAME), &self.own),
        }
    }

    fn remove(&self) -> io::Result<()> {
        let _lock = self.lock()?;
        fs::remove_file(self.own_path())?;
        let path = self.data.join(ServerFile::NAME);
        if !matches!(ServerFile::read(&self.data), Ok(Some(named)) if named == self.own) {
            return Ok(());
        }
        let others = ServerFile::all(&self.data);
        match others.iter().find(|other| **other != self.own && other.is_alive()) {
            Some(other) => replace(&path, other),
            None => fs::remove_file(path),
        }
    }

    fn directory(&self) -> PathBuf {
        self.data.join(ServerFile::DIRECTORY)
    }

    fn own_path(&self) -> PathBuf {
        self.directory().join(format!("{}-{}.json", self.own.pid, self.own.process_started))
    }

    fn lock(&self) -> io::Result<File> {
        let directory = File::open(self.directory())?;
        directory.lock()?;
        Ok(directory)
    }
}

impl Drop for ServerAnnouncement {
    fn drop(&mut self) {
        // If this fails, commands still see that the process is dead.
        let _ = self.remove();
    }
}

/// A reader finds the old file or the new one, never a part.
fn replace(path: &Path, content: &ServerFile) -> io::Result<()> {
    let draft = path.with_file_name(private_files::temporary_name("server")?);
    private_files::create(&draft)?.write_all(&serde_json::to_vec(content)?)?;
    fs::rename(&draft, path)
}
