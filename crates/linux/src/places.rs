//! Where the things of a body are on this host's disk.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_provider::InstanceId;

use crate::mark;
use crate::volatile::Volatile;

/// The directories that all bodies of one store share.
#[derive(Debug, Clone)]
pub(crate) struct Grounds {
    /// Bodies' own files, where they are on the disk.
    bodies: PathBuf,
    /// Sockets and secrets. Nobody but us.
    control: PathBuf,
    pub(crate) logs: PathBuf,
    pub(crate) ids: PathBuf,
    /// What any number of bodies have in common, read-only.
    pub(crate) layers: PathBuf,
    /// Empty filesystems to make bodies' own from.
    pub(crate) templates: PathBuf,
    /// Keeps what is in `control` and `ids` where it is.
    _volatile: Arc<Volatile>,
}

/// The directories of one body.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub(crate) name: String,
    pub(crate) body: PathBuf,
    pub(crate) control: PathBuf,
    pub(crate) logs: PathBuf,
}

impl Grounds {
    pub(crate) fn prepare(data: &Path) -> io::Result<Self> {
        make(data, 0o711)?;
        Self::over(data, Volatile::prepare(data)?)
    }

    /// All of it below this directory, and gone with it.
    #[cfg(test)]
    pub(crate) fn on_disk(data: &Path) -> io::Result<Self> {
        Self::over(data, Volatile::on_disk(data)?)
    }

    fn over(data: &Path, volatile: Volatile) -> io::Result<Self> {
        let mut grounds = Self {
            bodies: data.join("bodies"),
            control: data.join("control"),
            logs: data.join("logs"),
            ids: data.join("ids"),
            layers: data.join("layers"),
            templates: data.join("templates"),
            _volatile: Arc::new(volatile),
        };
        for (path, mode) in [(&grounds.bodies, 0o711), (&grounds.logs, 0o700), (&grounds.layers, 0o700)] {
            make(path, mode)?;
        }
        // The kernel names files behind devices by their true paths.
        grounds.bodies = fs::canonicalize(&grounds.bodies)?;
        Ok(grounds)
    }

    pub(crate) fn of(&self, body: InstanceId) -> Places {
        let name = mark::write(body);
        Places {
            body: self.bodies.join(&name),
            control: self.control.join(&name),
            logs: self.logs.join(body.sandbox.to_string()),
            name,
        }
    }

    /// The names of all bodies' directories, and of what else may be among them.
    pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for directory in [&self.bodies, &self.control] {
            for entry in fs::read_dir(directory)? {
                names.push(entry?.file_name());
            }
        }
        Ok(names)
    }

    /// The marks of all bodies that have a directory, and the names that are none.
    pub(crate) fn marks(&self) -> io::Result<(Vec<InstanceId>, Vec<String>)> {
        let (mut bodies, mut unreadable) = (Vec::new(), Vec::new());
        for directory in [&self.bodies, &self.control] {
            for entry in fs::read_dir(directory)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                match mark::read(&name) {
                    Some(body) => bodies.push(body),
                    None => unreadable.push(directory.join(name).display().to_string()),
                }
            }
        }
        bodies.sort_unstable();
        bodies.dedup();
        Ok((bodies, unreadable))
    }
}

impl Places {
    /// The file that a storage of its own is in, where it has one.
    pub(crate) fn image(&self) -> PathBuf {
        self.body.join("disk")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.control.join("socket")
    }

    pub(crate) fn secret(&self) -> PathBuf {
        self.control.join("secret")
    }

    /// Which range of ids is its own.
    pub(crate) fn ids(&self) -> PathBuf {
        self.control.join("ids")
    }

    /// What is linked to the range, to say whose it is.
    pub(crate) fn holder(&self) -> PathBuf {
        self.control.join("holder")
    }

    /// Process 1 of the body as seen from outside: its id and when it began. Locked as long as it lives.
    pub(crate) fn process(&self) -> PathBuf {
        self.control.join("process")
    }

    /// Where its control groups are.
    pub(crate) fn groups(&self) -> PathBuf {
        self.control.join("groups")
    }

    /// Locked while the body is being made.
    pub(crate) fn launch(&self) -> PathBuf {
        self.control.join("launch")
    }
}

/// A directory with this mode; one that is there already is given it. Says whether it is a new one.
pub(crate) fn make(path: &Path, mode: u32) -> io::Result<bool> {
    let is_new = match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(path)?;
            true
        }
        Err(error) => return Err(error),
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(is_new)
}
