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
use pinfold_confine::mounts::{Doing, MountError, attach, change_root, make_mounts_private};
use pinfold_keeper_wire::SandboxSetup;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, fsconfig_create, fsmount, fsopen, mount,
    mount_remount,
};
use rustix::system::sethostname;

use crate::syscalls;

mod devices;
mod root;
mod scaffold;
mod shares;

#[cfg(feature = "weakened")]
pub(crate) use devices::DEVICES;
use devices::Devices;
use scaffold::Scaffold;
use shares::Share;

const NOSUID_NODEV_NOEXEC: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);
/// Masked paths: they reveal or control the host's kernel.
pub(crate) const MASKED: [&str; 8] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/sysrq-trigger",
    "/proc/acpi",
    "/proc/scsi",
    "/sys/firmware",
];
/// Empty directory that is mounted over masked directories.
const EMPTY: &str = "/dev/empty";
const READ_ONLY: [&str; 4] = ["/proc/sys", "/proc/bus", "/proc/fs", "/proc/irq"];

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
    let dev = scaffold.take_dev()?;
    change_root(&root::assemble(&setup.root, mounts.root)?)?;
    for share in shared {
        attach_to_directory(&share.tree, &share.path)?;
    }
    attach_to_directory(&kernel_mounts.proc, Path::new("/proc"))?;
    attach_to_directory(&kernel_mounts.sys, Path::new("/sys"))?;
    devices::mount(&dev, device_mounts)?;
    make_world_directories()?;
    mask_paths()?;
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

/// Detached mounts of `/proc` and `/sys`.
pub(crate) struct KernelMounts {
    proc: OwnedFd,
    sys: OwnedFd,
}

impl KernelMounts {
    /// Creates the mounts. The kernel allows a new proc or sysfs mount only while a full one is visible, so this happens
    /// before the root changes.
    pub(crate) fn make() -> Result<Self, MountError> {
        make_mounts_private()?;
        Ok(Self {
            proc: new_kernel_mount("proc", MountAttrFlags::empty())?,
            sys: new_kernel_mount(sys_filesystem_type(), MountAttrFlags::MOUNT_ATTR_RDONLY)?,
        })
    }
}

/// The kernel allows a sysfs mount only to the owner of the network namespace.
fn sys_filesystem_type() -> &'static str {
    #[cfg(feature = "weakened")]
    if crate::disabled_guards::is_disabled(&pinfold_keeper_wire::DisabledGuard::HostNetwork) {
        return "tmpfs";
    }
    "sysfs"
}

/// Creates a detached mount of a kernel filesystem (fsopen, fsconfig, fsmount).
fn new_kernel_mount(kind: &str, more: MountAttrFlags) -> Result<OwnedFd, MountError> {
    let mount = || {
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let plain = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, plain | more)
    };
    mount().doing("create a mount of", kind)
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

fn mask_paths() -> Result<(), MountError> {
    for path in READ_ONLY.iter().filter(|path| Path::new(path).exists()) {
        // Bind the path to itself and make the bind mount read-only.
        mount(*path, *path, "", MountFlags::BIND, c"").doing("make read-only", path)?;
        mount_remount(*path, MountFlags::BIND | MountFlags::RDONLY | NOSUID_NODEV_NOEXEC, c"")
            .doing("make read-only", path)?;
    }
    // Stays empty: nothing can be created in a removed directory.
    fs::create_dir(EMPTY).doing("create", EMPTY)?;
    for path in MASKED.iter().filter(|path| Path::new(path).exists()) {
        if Path::new(path).is_dir() {
            // Cover the directory with the empty one, read-only.
            mount(EMPTY, *path, "", MountFlags::BIND, c"").doing("hide", path)?;
            mount_remount(*path, MountFlags::BIND | MountFlags::RDONLY | NOSUID_NODEV_NOEXEC, c"")
                .doing("hide", path)?;
        } else {
            // Cover the file with /dev/null.
            mount("/dev/null", *path, "", MountFlags::BIND, c"").doing("hide", path)?;
        }
    }
    fs::remove_dir(EMPTY).doing("remove", EMPTY)
}

/// Remounts `/dev` read-only. Writable directories below it are separate mounts.
fn make_dev_read_only() -> Result<(), MountError> {
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC;
    // Remount (mount MS_REMOUNT | MS_BIND | MS_RDONLY).
    mount_remount("/dev", flags, c"").doing("make read-only", "/dev")
}
