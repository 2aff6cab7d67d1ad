//! The files in a data directory by which commands find the servers that run there: `server.json` names one of them, and
//! `servers/` has a file for each.

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
    /// The directory with the files of all servers, each named after its process.
    pub const DIRECTORY: &str = "servers";

    /// All servers that have a file, dead ones included; the one in `server.json` comes first. Files that cannot be read
    /// are left out.
    #[must_use]
    pub fn all(data: &Path) -> Vec<Self> {
        let mut all: Vec<Self> = Self::read(data).ok().flatten().into_iter().collect();
        let entries = std::fs::read_dir(data.join(Self::DIRECTORY)).into_iter().flatten().flatten();
        let mut others: Vec<Self> =
            entries.filter_map(|entry| Self::read_at(entry.path()).ok().flatten()).collect();
        others.sort_by(|one, other| one.started_at.cmp(&other.started_at));
        others.retain(|other| !all.contains(other));
        all.append(&mut others);
        all
    }

    /// Reads the file. None: there is none, so no server runs there.
    pub fn read(data: &Path) -> Result<Option<Self>, ServerFileError> {
        Self::read_at(data.join(Self::NAME))
    }

    fn read_at(path: PathBuf) -> Result<Option<Self>, ServerFileError> {
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
    fn servers_are_found_by_their_own_files_beside_server_json() {
        let data = tempfile::tempdir().unwrap();
        let file = |pid| ServerFile {
            address: format!("http://127.0.0.1:{pid}"),
            pid,
            process_started: 1,
            started_at: format!("2026-01-0{pid}"),
        };
        let write = |path: &Path, pid| std::fs::write(path, serde_json::to_vec(&file(pid)).unwrap()).unwrap();
        let directory = data.path().join(ServerFile::DIRECTORY);
        std::fs::create_dir(&directory).unwrap();
        for pid in [1, 2, 3] {
            write(&directory.join(format!("{pid}-1.json")), pid);
        }
        std::fs::write(directory.join("4-1.json.draft"), "{").unwrap();
        write(&data.path().join(ServerFile::NAME), 2);

        assert_eq!(ServerFile::all(data.path()), [file(2), file(1), file(3)]);
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
