//! A small tmpfs from which the sandbox's `/dev` and the directories of `/sys` are taken, and in which mounts are
//! prepared before the root changes. One for everything: every superblock costs memory in each memory cgroup of the host.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use pinfold_confine::IdMap;
use pinfold_confine::mounts::{Doing, MOUNT_POINT, MountError, attach, clone_mount};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
};

use super::devices::{Devices, HostDevice};

/// Directory of the sandbox's `/dev`.
pub(super) const DEV: &str = "dev";
/// Stays empty: the top layer of overlays that only show another directory.
const EMPTY: &str = "empty";
/// Where mounts are attached for a moment.
const PLACE: &str = "place";

/// The attached scaffold. Detached together with the old root.
pub(super) struct Scaffold {
    root: PathBuf,
}

impl Scaffold {
    /// Inside, before the root changes. Returns the device mounts that are still to be attached.
    pub(super) fn build(devices: Devices) -> Result<(Self, Vec<HostDevice>), MountError> {
        let root = PathBuf::from(MOUNT_POINT);
        let (tree, bound) = match devices {
            Devices::Own(tree) => (tree, Vec::new()),
            Devices::OfHost(bound) => (create(None).doing("create", "/dev")?, bound),
        };
        attach(&tree, &root)?;
        for name in [EMPTY, PLACE] {
            let path = root.join(name);
            fs::create_dir(&path).doing("create", &path)?;
        }
        if !bound.is_empty() {
            let path = root.join(DEV);
            fs::create_dir(&path).doing("create", &path)?;
        }
        Ok((Self { root }, bound))
    }

    /// One of its directories, as a detached mount.
    pub(super) fn take(&self, name: &str) -> Result<OwnedFd, MountError> {
        clone_mount(&self.root.join(name))
    }

    /// Creates a directory and its parents.
    pub(super) fn make_directories(&self, path: &Path) -> Result<(), MountError> {
        let path = self.root.join(path);
        fs::create_dir_all(&path).doing("create", path)
    }

    pub(super) fn empty(&self) -> PathBuf {
        self.root.join(EMPTY)
    }

    /// Attaches a mount so that it has a path, until the root changes. A later one covers it.
    pub(super) fn place(&self, tree: &OwnedFd) -> Result<PathBuf, MountError> {
        let place = self.root.join(PLACE);
        attach(tree, Path::new(&place))?;
        Ok(place)
    }
}

/// Creates the tmpfs, detached. With `owner` it belongs to the sandbox's root, as seen from the host.
pub(super) fn create(owner: Option<IdMap>) -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in [("mode", "755"), ("size", "64m"), ("nr_inodes", "4160")] {
        fsconfig_set_string(&context, name, value)?;
    }
    if let Some(ids) = owner {
        fsconfig_set_string(&context, "uid", ids.uid.to_string())?;
        fsconfig_set_string(&context, "gid", ids.gid.to_string())?;
    }
    // Create the filesystem and get a detached mount of it (fsconfig FSCONFIG_CMD_CREATE, fsmount).
    fsconfig_create(context.as_fd())?;
    let nosuid_noexec = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, nosuid_noexec)?)
}
