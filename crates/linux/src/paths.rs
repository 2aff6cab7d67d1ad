//! Paths of the data directory and of each instance in it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_provider::InstanceId;

use crate::instance_name;
use crate::runtime_dir::RuntimeDir;

/// Directories shared by all instances of one store.
#[derive(Debug, Clone)]
pub(crate) struct DataPaths {
    /// Storage of instances that live on disk.
    instances: PathBuf,
    /// Sockets, secrets, locks. Accessible to this user only.
    control: PathBuf,
    pub(crate) logs: PathBuf,
    pub(crate) ids: PathBuf,
    /// Read-only layers shared by instances.
    pub(crate) layers: PathBuf,
    /// Empty file system images that instance disks are copied from.
    pub(crate) templates: PathBuf,
    /// Holds the tmpfs directory behind `control` and `ids`.
    _runtime_dir: Arc<RuntimeDir>,
}

/// Directories of one instance.
#[derive(Debug, Clone)]
pub(crate) struct InstancePaths {
    pub(crate) name: String,
    pub(crate) storage: PathBuf,
    pub(crate) control: PathBuf,
    pub(crate) logs: PathBuf,
}

impl DataPaths {
    pub(crate) fn prepare(data: &Path) -> io::Result<Self> {
        make_directory(data, 0o711)?;
        Self::build(data, RuntimeDir::prepare(data)?)
    }

    /// Everything below this directory, without a tmpfs.
    #[cfg(test)]
    pub(crate) fn on_disk(data: &Path) -> io::Result<Self> {
        Self::build(data, RuntimeDir::on_disk(data)?)
    }

    fn build(data: &Path, runtime_dir: RuntimeDir) -> io::Result<Self> {
        let mut data_paths = Self {
            instances: data.join("instances"),
            control: data.join("control"),
            logs: data.join("logs"),
            ids: data.join("ids"),
            layers: data.join("layers"),
            templates: data.join("templates"),
            _runtime_dir: Arc::new(runtime_dir),
        };
        for (path, mode) in
            [(&data_paths.instances, 0o711), (&data_paths.logs, 0o700), (&data_paths.layers, 0o700)]
        {
            make_directory(path, mode)?;
        }
        // The kernel reports backing files of loop devices by their canonical paths.
        data_paths.instances = fs::canonicalize(&data_paths.instances)?;
        Ok(data_paths)
    }

    pub(crate) fn of(&self, instance: InstanceId) -> InstancePaths {
        let name = instance_name::encode(instance);
        InstancePaths {
            storage: self.instances.join(&name),
            control: self.control.join(&name),
            logs: self.logs.join(instance.sandbox.to_string()),
            name,
        }
    }

    /// The names of all entries in the instance directories, also foreign ones.
    pub(crate) fn directory_names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for directory in [&self.instances, &self.control] {
            for entry in fs::read_dir(directory)? {
                names.push(entry?.file_name());
            }
        }
        Ok(names)
    }

    /// All instances that have a directory, and the names that cannot be parsed.
    pub(crate) fn instances(&self) -> io::Result<(Vec<InstanceId>, Vec<String>)> {
        let (mut instances, mut unreadable) = (Vec::new(), Vec::new());
        for directory in [&self.instances, &self.control] {
            for entry in fs::read_dir(directory)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                match instance_name::decode(&name) {
                    Some(instance) => instances.push(instance),
                    None => unreadable.push(directory.join(name).display().to_string()),
                }
            }
        }
        instances.sort_unstable();
        instances.dedup();
        Ok((instances, unreadable))
    }
}

impl InstancePaths {
    /// The disk image file, where the storage is an image.
    pub(crate) fn disk_image(&self) -> PathBuf {
        self.storage.join("disk")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.control.join("socket")
    }

    pub(crate) fn secret(&self) -> PathBuf {
        self.control.join("secret")
    }

    /// The recorded id range.
    pub(crate) fn ids(&self) -> PathBuf {
        self.control.join("ids")
    }

    /// The file hard-linked as the taken range, to name its instance.
    pub(crate) fn id_range_owner(&self) -> PathBuf {
        self.control.join("id_range_owner")
    }

    /// Pid and start time of process 1. Locked as long as it lives.
    pub(crate) fn pid_file(&self) -> PathBuf {
        self.control.join("keeper.pid")
    }

    /// The recorded cgroup directories.
    pub(crate) fn cgroup_record(&self) -> PathBuf {
        self.control.join("cgroups")
    }

    /// Locked while the instance is being created.
    pub(crate) fn launch_lock(&self) -> PathBuf {
        self.control.join("launch")
    }
}

/// Creates a directory, or sets the mode of an existing one. Returns whether it is new.
pub(crate) fn make_directory(path: &Path, mode: u32) -> io::Result<bool> {
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
