//! Sets up the sandbox: root filesystem, devices, `/proc`, `/sys`, host name and loopback. The keeper does this in its
//! own namespaces, so that all of it disappears with them.
//!
//! Directories of the host are opened as detached mounts before the root changes and attached afterwards: no path of
//! an image is ever resolved outside.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pinfold_confine::IdMap;
use pinfold_confine::mounts::{Doing, MountError, attach, change_root};
use pinfold_keeper_wire::SandboxSetup;
use rustix::mount::{MountFlags, mount_remount};
use rustix::system::sethostname;

use crate::syscalls;

mod devices;
mod kernel_files;
mod root;
mod scaffold;
mod shares;

#[cfg(feature = "weakened")]
pub(crate) use devices::DEVICES;
use devices::Devices;
pub(crate) use kernel_files::KernelMounts;
#[cfg(feature = "weakened")]
pub(crate) use kernel_files::MASKED;
use scaffold::{DEV, Scaffold};
use shares::Share;

/// Opens everything from the host as detached mounts. As root this happens outside, with root's rights: the ids
/// inside may lack access to the paths. An unprivileged user can do it only inside the new namespaces.
pub(crate) fn open_mounts(setup: &SandboxSetup, ids: IdMap) -> Result<DetachedMounts, MountError> {
    Ok(DetachedMounts {
        root: root::open_mounts(&setup.root, ids)?,
        shared: setup.shared.iter().map(|path| Share::open(path)).collect::<Result<_, _>>()?,
        devices: Devices::open(ids)?,
    })
}

/// Maps the ids of the opened layers for the keeper process `pid`.
pub(crate) fn map_layer_ids(
    setup: &SandboxSetup,
    mounts: &DetachedMounts,
    pid: i32,
    ids: IdMap,
) -> Result<(), MountError> {
    root::map_layers(&setup.root, &mounts.root, pid, ids)
}

/// Assembles the sandbox, inside. Afterwards nothing of the host is visible but the shared directories.
pub(crate) fn build(
    setup: &SandboxSetup,
    mounts: DetachedMounts,
    kernel_mounts: KernelMounts,
) -> Result<(), MountError> {
    let (scaffold, device_mounts) = Scaffold::build(mounts.devices)?;
    let shared: Vec<_> =
        mounts.shared.into_iter().map(|share| share.with_own_inodes(&scaffold)).collect::<Result<_, _>>()?;
    let sys = kernel_mounts.take_sys_parts(&scaffold)?;
    let dev = scaffold.take(DEV)?;
    change_root(&root::assemble(&setup.root, mounts.root)?)?;
    for share in shared {
        attach_to_directory(&share.tree, &share.path)?;
    }
    kernel_mounts.attach(&sys)?;
    devices::mount(&dev, device_mounts)?;
    make_world_directories()?;
    kernel_files::mask_paths()?;
    make_dev_read_only()?;
    // Set the host name (sethostname).
    sethostname(setup.hostname.as_bytes()).doing("set the host name", &setup.hostname)?;
    #[cfg(feature = "weakened")]
    if crate::disabled_guards::is_disabled(&pinfold_keeper_wire::DisabledGuard::HostNetwork) {
        return Ok(());
    }
    syscalls::bring_loopback_up().doing("bring up", "lo")
}

/// Detached mounts of the host's directories.
pub(crate) struct DetachedMounts {
    root: root::RootMounts,
    shared: Vec<Share>,
    devices: Devices,
}

/// Attaches a detached mount to a directory, which is created if missing.
fn attach_to_directory(tree: &OwnedFd, at: &Path) -> Result<(), MountError> {
    ensure_directory(at)?;
    attach(tree, at)
}

/// Ensures a real directory. An image may have a symbolic link there, to redirect the mount.
fn ensure_directory(directory: &Path) -> Result<(), MountError> {
    fs::create_dir_all(directory).doing("create", directory)?;
    match fs::symlink_metadata(directory) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(io::Error::from(io::ErrorKind::NotADirectory)).doing("use", directory),
        Err(error) => Err(error).doing("inspect", directory),
    }
}

/// Ensures the directories that every user inside may use.
fn make_world_directories() -> Result<(), MountError> {
    for directory in ["/tmp", "/workspace"] {
        ensure_directory(Path::new(directory))?;
    }
    fs::set_permissions("/tmp", fs::Permissions::from_mode(0o1777)).doing("set the mode of", "/tmp")
}

/// Remounts `/dev` read-only. Writable directories below it are separate mounts.
fn make_dev_read_only() -> Result<(), MountError> {
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC;
    // Remount (mount MS_REMOUNT | MS_BIND | MS_RDONLY).
    mount_remount("/dev", flags, c"").doing("make read-only", "/dev")
}
