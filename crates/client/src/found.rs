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
    pub started_at: String,
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("could not read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` does not say where a server is", path.display())]
    Unclear { path: PathBuf, source: serde_json::Error },
}

impl ServerFile {
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
}
