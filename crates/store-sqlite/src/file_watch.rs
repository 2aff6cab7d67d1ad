//! Notices that the files of the store were removed or replaced while they are open, or that their filesystem was made
//! read-only. A write to a removed file succeeds and is lost, and two processes with different files for shared memory
//! destroy the database. SQLite notices neither.
//!
//! Only paths are looked at: closing a second descriptor of such a file would release SQLite's locks on it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};

/// The files as they were when the store was opened.
#[derive(Debug, Clone)]
pub(crate) struct FileWatch {
    files: [(PathBuf, Identity); 3],
}

type Identity = (u64, u64);

impl FileWatch {
    /// The database must be open, so that all its files exist.
    pub(crate) fn begin(database: &Path) -> io::Result<Self> {
        let seen = |path: PathBuf| identity(&path).map(|identity| (path, identity));
        Ok(Self {
            files: [
                seen(database.to_path_buf())?,
                seen(database.with_extension("db-wal"))?,
                seen(database.with_extension("db-shm"))?,
            ],
        })
    }

    /// What has happened to the files, as one line.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.check_identity()?;
        let (database, _) = &self.files[0];
        match statvfs(database) {
            Ok(found) if found.f_flag.contains(StatVfsMountFlags::RDONLY) => Err(read_only(database)),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Tries to make a file beside the database, to explain a failed write: SQLite says only that the disk failed, and a
    /// filesystem that gave up after an error of its own still says that it can be written.
    pub(crate) fn probe(&self) -> Result<(), String> {
        let (database, _) = &self.files[0];
        let probe = || -> io::Result<()> {
            let path = database.with_file_name(pinfold_private_files::temporary_name("probe")?);
            pinfold_private_files::create(&path)?;
            fs::remove_file(path)
        };
        match probe() {
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Err(read_only(database)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(crate) fn check_identity(&self) -> Result<(), String> {
        for (path, before) in &self.files {
            let path_text = path.display();
            let what = match identity(path) {
                Ok(now) if now == *before => continue,
                Ok(_) => "was replaced by another file".to_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => "was removed".to_owned(),
                Err(error) => format!("cannot be looked up ({error})"),
            };
            return Err(format!(
                "`{path_text}` {what} while it was in use; stop every process of Pinfold, restore the store, and start again"
            ));
        }
        Ok(())
    }
}

fn read_only(database: &Path) -> String {
    format!("the filesystem of `{}` has become read-only", database.display())
}

fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}
