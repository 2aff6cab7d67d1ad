//! `/proc` and `/sys` of the sandbox. What shows or controls the host is hidden: single paths of `/proc`, and all of `/sys`
//! but the few parts that ordinary programs read.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use pinfold_confine::mounts::{Doing, MountError, attach, clone_mount, make_mounts_private};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, fsconfig_create, fsmount, fsopen, mount,
    mount_remount,
};

use super::attach_to_directory;
use super::scaffold::Scaffold;
use crate::syscalls;

const NOSUID_NODEV_NOEXEC: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Masked paths: they reveal or control the host's kernel, or tell what the host and other sandboxes do. Programs read
/// `/proc/stat`, `meminfo`, `cpuinfo`, `loadavg`, `uptime`, `vmstat` and `version`, so those stay.
pub(crate) const MASKED: [&str; 33] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/buddyinfo",
    "/proc/bus",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/consoles",
    "/proc/diskstats",
    "/proc/driver",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/irq",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/mdstat",
    "/proc/modules",
    "/proc/pagetypeinfo",
    "/proc/partitions",
    "/proc/pressure",
    "/proc/sched_debug",
    "/proc/schedstat",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/softirqs",
    "/proc/swaps",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/vmallocinfo",
    "/proc/zoneinfo",
];
const READ_ONLY: &str = "/proc/sys";
/// Empty directory that is mounted over masked directories.
const EMPTY: &str = "/dev/empty";

/// What programs read in `/sys`: processors, memory nodes, network interfaces of the sandbox, and whether memory comes in
/// transparent huge pages. The rest describes the host's hardware and disks, the files of other sandboxes included.
const VISIBLE: [&str; 5] = [
    "class/net",
    "devices/system/cpu",
    "devices/system/node",
    "devices/virtual/net",
    "kernel/mm/transparent_hugepage",
];
/// A place without content: cgroups are not mounted inside, and programs look here first.
const CGROUP: &str = "fs/cgroup";
const SYS: &str = "sys";

/// Detached mounts of `/proc` and `/sys`.
pub(crate) struct KernelMounts {
    proc: OwnedFd,
    sys: OwnedFd,
}

/// The visible parts of `/sys`, as detached mounts.
pub(super) struct SysMounts {
    directories: OwnedFd,
    parts: Vec<(&'static str, OwnedFd)>,
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

    /// Before the root changes: takes the visible parts of `/sys`.
    pub(super) fn take_sys_parts(&self, scaffold: &Scaffold) -> Result<SysMounts, MountError> {
        let whole = scaffold.place(&self.sys)?;
        #[cfg(feature = "weakened")]
        if crate::disabled_guards::is_disabled(&pinfold_keeper_wire::DisabledGuard::MaskedPathsVisible) {
            return Ok(SysMounts { directories: clone_mount(&whole)?, parts: Vec::new() });
        }
        let mut parts = Vec::new();
        // A host with one memory node, or without transparent huge pages, lacks that part.
        for part in VISIBLE.into_iter().filter(|part| whole.join(part).is_dir()) {
            parts.push((part, clone_mount(&whole.join(part))?));
            scaffold.make_directories(&Path::new(SYS).join(part))?;
        }
        scaffold.make_directories(&Path::new(SYS).join(CGROUP))?;
        let directories = scaffold.take(SYS)?;
        syscalls::make_read_only(&directories).doing("make read-only", "/sys")?;
        Ok(SysMounts { directories, parts })
    }

    /// After the root has changed: attaches `/proc` and `/sys`.
    pub(super) fn attach(&self, sys: &SysMounts) -> Result<(), MountError> {
        attach_to_directory(&self.proc, Path::new("/proc"))?;
        attach_to_directory(&sys.directories, Path::new("/sys"))?;
        sys.parts.iter().try_for_each(|(part, tree)| attach(tree, &Path::new("/sys").join(part)))
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

/// Hides the masked paths and makes kernel settings read-only.
pub(super) fn mask_paths() -> Result<(), MountError> {
    // Bind the path to itself and make the bind mount read-only.
    mount(READ_ONLY, READ_ONLY, "", MountFlags::BIND, c"").doing("make read-only", READ_ONLY)?;
    mount_remount(READ_ONLY, MountFlags::BIND | MountFlags::RDONLY | NOSUID_NODEV_NOEXEC, c"")
        .doing("make read-only", READ_ONLY)?;
    // Stays empty: nothing can be created in a removed directory.
    fs::create_dir(EMPTY).doing("create", EMPTY)?;
    for path in MASKED {
        let Ok(found) = fs::metadata(path) else { continue };
        if found.is_dir() {
            // Cover the directory with the empty one, read-only.
            mount(EMPTY, path, "", MountFlags::BIND, c"").doing("hide", path)?;
            mount_remount(path, MountFlags::BIND | MountFlags::RDONLY | NOSUID_NODEV_NOEXEC, c"")
                .doing("hide", path)?;
        } else {
            // Cover the file with /dev/null.
            mount("/dev/null", path, "", MountFlags::BIND, c"").doing("hide", path)?;
        }
    }
    fs::remove_dir(EMPTY).doing("remove", EMPTY)
}
