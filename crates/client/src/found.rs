//! The server that runs on a data directory says so in a file there.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What `server.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFile {
    /// `http://HOST:PORT`
    pub address: String,
    pub pid: u32,
    /// When that process began, in ticks since boot: another one may get its number.
    pub process_started: u64,
    pub started_at: String,
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("could not read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` does not say where a server is", path.display())]
    Unclear { path: PathBuf, source: serde_json::Error },
}

/// When a process began, in ticks since boot. None: there is none, or it has ended.
#[must_use]
pub fn process_started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets and may hold anything, brackets too.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

impl ServerFile {
    /// Whether the process that wrote it is still there.
    #[must_use]
    pub fn is_of_the_living(&self) -> bool {
        process_started(self.pid) == Some(self.process_started)
    }

    pub const NAME: &str = "server.json";

    /// None: no server says that it runs there.
    pub fn read(data: &Path) -> Result<Option<Self>, FindError> {
        let path = data.join(Self::NAME);
        match std::fs::read(&path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(found) => Ok(Some(found)),
                Err(source) => Err(FindError::Unclear { path, source }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(FindError::Read { path, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_no_server_and_a_broken_one_is_an_error() {
        let data = tempfile::tempdir().unwrap();
        assert!(matches!(ServerFile::read(data.path()), Ok(None)));

        std::fs::write(data.path().join(ServerFile::NAME), "{").unwrap();

        assert!(matches!(ServerFile::read(data.path()), Err(FindError::Unclear { .. })));
    }

    #[test]
    fn a_process_is_known_by_its_number_and_its_beginning() {
        let pid = std::process::id();
        let said = |pid, process_started| ServerFile {
            address: "http://127.0.0.1:1".into(),
            pid,
            process_started,
            started_at: String::new(),
        };
        let own = process_started(pid).unwrap();

        assert!(said(pid, own).is_of_the_living());
        assert!(!said(pid, own + 1).is_of_the_living());
        assert!(!said(u32::MAX, own).is_of_the_living());
    }
}
