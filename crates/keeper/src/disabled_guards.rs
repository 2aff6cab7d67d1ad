//! Switches that disable one guard each, so that the attack suite can prove that an attack succeeds without the guard.
//! Compiled only with the feature `weakened`, with which the `pinfold` program refuses to compile.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use pinfold_confine::weakened::{self, DisabledConfinement};
use pinfold_confine::{CapabilitySet, NewPrivileges, Profile};
use pinfold_keeper_wire::DisabledGuard;
use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_remount, move_mount, open_tree, unmount,
};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::sandbox_setup::{DEVICES, MASKED};
use crate::syscalls;

static DISABLED: OnceLock<Vec<DisabledGuard>> = OnceLock::new();
static HELD: Mutex<Vec<(PathBuf, OwnedFd)>> = Mutex::new(Vec::new());

/// Descriptor number under which executions get the leaked directory.
const LEAKED: i32 = 60;

/// In the child that becomes the keeper: disables these guards.
pub(crate) fn disable(guards: Vec<DisabledGuard>) {
    weakened::disable(DisabledConfinement {
        ambient_capabilities_allowed: guards.contains(&DisabledGuard::AmbientCapabilitiesAllowed),
        inheritable_capabilities_kept: guards.contains(&DisabledGuard::InheritableCapabilitiesKept),
        host_limits: guards.contains(&DisabledGuard::HostLimits),
    });
    // Set once: each keeper is its own process.
    let _ = DISABLED.set(guards);
}

fn all() -> &'static [DisabledGuard] {
    DISABLED.get().map_or(&[], Vec::as_slice)
}

pub(crate) fn is_disabled(guard: &DisabledGuard) -> bool {
    all().contains(guard)
}

/// Removes the flags of namespaces that a sandbox with these disabled guards shares with the host.
pub(crate) fn remove_namespaces(guards: &[DisabledGuard], namespaces: libc::c_int) -> libc::c_int {
    let missing = guards.iter().fold(0, |missing, guard| match guard {
        DisabledGuard::HostNetwork => missing | libc::CLONE_NEWNET,
        DisabledGuard::HostIpc => missing | libc::CLONE_NEWIPC,
        _ => missing,
    });
    namespaces & !missing
}

pub(crate) fn profile(mut profile: Profile) -> Profile {
    for guard in all() {
        match guard {
            DisabledGuard::SyscallGroupAllowed(group) => profile = profile.with_allowed(*group),
            DisabledGuard::Capability(bits) => {
                profile.capabilities |= CapabilitySet::from_bits_retain(*bits);
            }
            DisabledGuard::NewPrivilegesGranted => profile.new_privileges = NewPrivileges::Granted,
            _ => {}
        }
    }
    profile
}

/// Opens directories of the host, before the root changes.
pub(crate) fn open_host_directories() -> io::Result<()> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    for guard in all() {
        match guard {
            DisabledGuard::HostDirectory(path) => {
                let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
                held.push((path.clone(), open_tree(CWD, path, flags)?));
            }
            DisabledGuard::LeakedDirectory(path) => held.push((path.clone(), File::open(path)?.into())),
            DisabledGuard::HostInodes => {
                for path in paths_with_host_inodes() {
                    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
                    let tree = open_tree(CWD, &path, flags)?;
                    if path.is_dir() {
                        syscalls::make_read_only(&tree)?;
                    }
                    held.push((path, tree));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// `/usr`, further shares and the device files.
fn paths_with_host_inodes() -> Vec<PathBuf> {
    let shares = all().iter().filter_map(|guard| match guard {
        DisabledGuard::Share(path) => Some(path.clone()),
        _ => None,
    });
    let devices = DEVICES.iter().map(|(name, _, _)| Path::new("/dev").join(name));
    shares.chain(devices).chain([PathBuf::from("/usr")]).collect()
}

/// Undoes mounts of the finished setup.
pub(crate) fn undo_mounts() -> io::Result<()> {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let mut of_root = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV;
    for guard in all() {
        match guard {
            DisabledGuard::ProcSysWritable => unmount("/proc/sys", UnmountFlags::DETACH)?,
            DisabledGuard::MaskedPathsVisible => unmask_paths()?,
            DisabledGuard::SetuidHonoured => of_root -= MountFlags::NOSUID,
            DisabledGuard::HostDirectory(path) => {
                let tree = held.iter().find(|(of, _)| of == path).ok_or(io::ErrorKind::NotFound)?;
                fs::create_dir_all(path)?;
                move_mount(&tree.1, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
            }
            DisabledGuard::HostInodes => {
                let covered = paths_with_host_inodes();
                for (path, tree) in held.iter().filter(|(path, _)| covered.contains(path)) {
                    move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
                }
            }
            _ => {}
        }
    }
    Ok(mount_remount("/", of_root, c"")?)
}

fn unmask_paths() -> io::Result<()> {
    for path in MASKED.iter().filter(|path| Path::new(path).exists()) {
        unmount(*path, UnmountFlags::DETACH)?;
    }
    Ok(())
}

/// Makes the keeper readable again, after it is confined.
pub(crate) fn make_keeper_dumpable() -> io::Result<()> {
    if is_disabled(&DisabledGuard::KeeperReadable) {
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    }
    Ok(())
}

/// Whether a child keeps the keeper's descriptors.
pub(crate) fn keeps_descriptors() -> bool {
    let keeps = |it: &DisabledGuard| {
        matches!(it, DisabledGuard::DescriptorsKeptUntilExec | DisabledGuard::LeakedDirectory(_))
    };
    all().iter().any(keeps)
}

/// In a child, before its exec: duplicates the leaked directory.
pub(crate) fn leak_directory() -> io::Result<()> {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    for (path, descriptor) in held.iter() {
        if is_disabled(&DisabledGuard::LeakedDirectory(path.clone())) {
            syscalls::dup_to(descriptor, LEAKED)?;
        }
    }
    Ok(())
}
