//! `server.json`: the file in a data directory by which commands find the server that runs there.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The content of `server.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFile {
    /// `http://HOST:PORT`
    pub address: String,
    pub pid: u32,
    /// Start time of that process in clock ticks since boot, which tells a reused pid apart.
    pub process_started: u64,
    pub started_at: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ServerFileError {
    #[error("could not read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("could not parse the server address in `{}`", path.display())]
    Invalid { path: PathBuf, source: serde_json::Error },
}

/// Start time of a process in clock ticks since boot. None: there is no such process, or it has ended.
#[must_use]
pub fn process_started(pid: u32) -> Option<u64> {
    pinfold_procfs::start_time(i32::try_from(pid).ok()?).ok()?
}

impl ServerFile {
    /// Whether the process that wrote the file still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        process_started(self.pid) == Some(self.process_started)
    }

    pub const NAME: &str = "server.json";

    /// Reads the file. None: there is none, so no server runs there.
    pub fn read(data: &Path) -> Result<Option<Self>, ServerFileError> {
        let path = data.join(Self::NAME);
        match std::fs::read(&path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(found) => Ok(Some(found)),
                Err(source) => Err(ServerFileError::Invalid { path, source }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ServerFileError::Read { path, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_file_means_no_server_and_a_broken_file_is_an_error() {
        let data = tempfile::tempdir().unwrap();
        assert!(matches!(ServerFile::read(data.path()), Ok(None)));

        std::fs::write(data.path().join(ServerFile::NAME), "{").unwrap();

        assert!(matches!(ServerFile::read(data.path()), Err(ServerFileError::Invalid { .. })));
    }

    #[test]
    fn server_is_alive_only_if_pid_and_start_time_match() {
        let pid = std::process::id();
        let server_file = |pid, process_started| ServerFile {
            address: "http://127.0.0.1:1".into(),
            pid,
            process_started,
            started_at: String::new(),
        };
        let own = process_started(pid).unwrap();

        assert!(server_file(pid, own).is_alive());
        assert!(!server_file(pid, own + 1).is_alive());
        assert!(!server_file(u32::MAX, own).is_alive());
    }
}
