//! Directories of the host inside the sandbox, read-only.
//!
//! Each is shown through an overlay, whose inodes are the sandbox's own. A bind mount would show the host's inodes: a
//! watch on `/usr/bin` would then tell which programs the host and other sandboxes start, a file lock would be a signal
//! between sandboxes, and fsync would flush the host's disk.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use pinfold_confine::mounts::{Doing, MountError, clone_mount};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen,
};

use super::scaffold::Scaffold;
use crate::syscalls;

/// A directory of the host, as a detached read-only mount.
pub(super) struct Share {
    pub(super) path: PathBuf,
    pub(super) tree: OwnedFd,
}

impl Share {
    /// With the rights of the spawner where it runs as root.
    pub(super) fn open(path: &Path) -> Result<Self, MountError> {
        let tree = clone_mount(path)?;
        syscalls::make_read_only(&tree).doing("make read-only", path)?;
        Ok(Self { path: path.to_owned(), tree })
    }

    /// Inside, before the root changes: the same directory through an overlay. Where the kernel refuses that, the bind
    /// mount stays: `doctor` reports it.
    pub(super) fn with_own_inodes(self, scaffold: &Scaffold) -> Result<Self, MountError> {
        let place = scaffold.place(&self.tree)?;
        match mount_overlay(&scaffold.empty(), &place) {
            Ok(tree) => Ok(Self { tree, ..self }),
            // A mount that has a path cannot be attached again, but its copy can.
            Err(error) if is_unsupported(error) => Ok(Self { tree: clone_mount(&place)?, ..self }),
            Err(error) => Err(io::Error::from(error)).doing("mount the overlay of", &self.path),
        }
    }
}

/// Whether no overlay of this directory is possible: it is on an overlay of an overlay already, or its filesystem does not
/// support it. Any other error is one of this launch, and must not weaken the sandbox.
fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NODEV | Errno::OPNOTSUPP)
}

/// Mounts an overlay without writable layer, which needs two layers. The empty one comes first: the overlay then tells its
/// size as that of the filesystem, and not the host's.
fn mount_overlay(empty: &Path, directory: &Path) -> Result<OwnedFd, Errno> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let layers = format!("{}:{}", empty.display(), directory.display());
    fsconfig_set_string(&context, "lowerdir", layers)?;
    fsconfig_set_flag(&context, "userxattr")?;
    // Create the filesystem (fsconfig FSCONFIG_CMD_CREATE).
    fsconfig_create(context.as_fd())?;
    let read_only = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    // Get a detached mount of it (fsmount).
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, read_only)
}
