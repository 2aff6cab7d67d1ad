//! Mounts and the root of a process in a mount namespace of its own.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_change,
    mount_remount, move_mount, open_tree, unmount,
};
use rustix::process::{chdir, pivot_root};

/// Temporary mount point. Exists on every host; the mount is visible in this mount namespace only.
pub const MOUNT_POINT: &str = "/usr";

#[derive(Debug, thiserror::Error)]
#[error("could not {doing} `{}`: {source}", path.display())]
pub struct MountError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Adds to an error what was attempted.
pub trait Doing<T> {
    fn doing(self, doing: &'static str, path: impl AsRef<Path>) -> Result<T, MountError>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, doing: &'static str, path: impl AsRef<Path>) -> Result<T, MountError> {
        self.map_err(|error| MountError { doing, path: path.as_ref().to_owned(), source: error.into() })
    }
}

/// Makes all mounts private, so that changes do not propagate to the host.
pub fn make_mounts_private() -> Result<(), MountError> {
    // Change the propagation of all mounts (mount MS_PRIVATE | MS_REC).
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .doing("make private the mounts below", "/")
}

/// Opens a detached copy of the mount at `path` (open_tree).
pub fn clone_mount(path: &Path) -> Result<OwnedFd, MountError> {
    open_tree(CWD, path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)
        .doing("clone the mount of", path)
}

/// Attaches a detached mount (move_mount).
pub fn attach(tree: &OwnedFd, at: &Path) -> Result<(), MountError> {
    move_mount(tree, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).doing("attach a mount to", at)
}

/// Changes the root: attaches the new root in this mount namespace, pivots into it with the old root stacked below, and
/// detaches the old root.
pub fn change_root(root: &OwnedFd) -> Result<(), MountError> {
    attach(root, Path::new(MOUNT_POINT))?;
    // Enter the new root (chdir).
    chdir(MOUNT_POINT).doing("enter", MOUNT_POINT)?;
    // Swap the roots (pivot_root). The old root is now mounted on top of `.`.
    pivot_root(".", ".").doing("make the root", MOUNT_POINT)?;
    // Detach the old root (umount2 MNT_DETACH).
    unmount(".", UnmountFlags::DETACH).doing("detach the old root below", MOUNT_POINT)?;
    chdir("/").doing("enter", "/")
}

/// Remounts the root nosuid and nodev: it was a directory of the host.
pub fn remount_root_nosuid() -> Result<(), MountError> {
    // Remount (mount MS_REMOUNT | MS_BIND).
    mount_remount("/", MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV, c"")
        .doing("remount nosuid and nodev", "/")
}
