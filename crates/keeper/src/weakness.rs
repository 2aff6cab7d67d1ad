//! Guards that are taken out one by one, to show that an attack on each of them is real. Only the attack suite is
//! built with this: the `pinfold` program refuses to compile with it.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_remount, move_mount, open_tree, unmount,
};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use serde::{Deserialize, Serialize};

use crate::confine::{CapabilitySet, Door, NewPrivileges, Profile};
use crate::kernel;
use crate::world::HIDDEN;

/// A guard that a sandbox does without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Weakness {
    OpenDoor(Door),
    /// The workload keeps these too.
    Capability(u64),
    NewPrivilegesGranted,
    AmbientCapabilitiesAllowed,
    /// Limits on open files, locked memory, queues, signals, core files and priorities are the host's.
    LimitsOfTheHost,
    /// The keeper's memory, environment and descriptors can be looked at.
    KeeperReadable,
    NetworkOfTheHost,
    QueuesOfTheHost,
    /// `/proc/sys` can be written to.
    KernelSettingsWritable,
    /// What is hidden in `/proc` and `/sys` is in sight.
    HiddenPathsShown,
    SetuidFilesHonoured,
    DeviceFilesHonoured,
    /// As many terminals as the whole host has.
    TerminalsWithoutEnd,
    /// A directory of the host, writable, under the same name.
    Shared(PathBuf),
    /// Every execution starts with a descriptor of this directory of the host.
    LeakedDirectory(PathBuf),
    /// Every execution starts with a variable of this value.
    LeakedVariable(String),
    /// A child has the keeper's descriptors until it becomes its program.
    DescriptorsKeptUntilExec,
    /// What an execution writes is read without asking whether it is still there.
    OutputReadBlindly,
    /// A child that does not become its program is waited for without end.
    ChildrenWaitedForWithoutEnd,
    /// The probe takes whatever is in the place of its file.
    ProbeFollowsAnything,
    OutputWithoutEnd,
    /// The root that a body finds is taken as it is.
    RootTakenAsFound,
}

static TAKEN_OUT: OnceLock<Vec<Weakness>> = OnceLock::new();
static HELD: Mutex<Vec<(PathBuf, OwnedFd)>> = Mutex::new(Vec::new());

/// Under this number executions find what was leaked to them.
const LEAKED: i32 = 9;

/// In the child that becomes the keeper: from now on these guards are out.
pub(crate) fn take_out(weaknesses: Vec<Weakness>) {
    // Each keeper is a process of its own and is born once.
    let _ = TAKEN_OUT.set(weaknesses);
}

fn all() -> &'static [Weakness] {
    TAKEN_OUT.get().map_or(&[], Vec::as_slice)
}

pub(crate) fn has(weakness: &Weakness) -> bool {
    all().contains(weakness)
}

/// The namespaces that a sandbox with these weaknesses does not get.
pub(crate) fn without(weaknesses: &[Weakness], namespaces: libc::c_int) -> libc::c_int {
    let missing = weaknesses.iter().fold(0, |missing, weakness| match weakness {
        Weakness::NetworkOfTheHost => missing | libc::CLONE_NEWNET,
        Weakness::QueuesOfTheHost => missing | libc::CLONE_NEWIPC,
        _ => missing,
    });
    namespaces & !missing
}

pub(crate) fn profile(mut profile: Profile) -> Profile {
    for weakness in all() {
        match weakness {
            Weakness::OpenDoor(door) => profile = profile.with_open(*door),
            Weakness::Capability(bits) => {
                profile.capabilities |= CapabilitySet::from_bits_retain(*bits);
            }
            Weakness::NewPrivilegesGranted => profile.new_privileges = NewPrivileges::Granted,
            _ => {}
        }
    }
    profile
}

/// Takes hold of what is outside, before the root changes.
pub(crate) fn gather() -> io::Result<()> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    for weakness in all() {
        match weakness {
            Weakness::Shared(path) => {
                let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
                held.push((path.clone(), open_tree(CWD, path, flags)?));
            }
            Weakness::LeakedDirectory(path) => held.push((path.clone(), File::open(path)?.into())),
            _ => {}
        }
    }
    Ok(())
}

/// Takes out what was built.
pub(crate) fn undo() -> io::Result<()> {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let mut of_root = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV;
    for weakness in all() {
        match weakness {
            Weakness::KernelSettingsWritable => unmount("/proc/sys", UnmountFlags::DETACH)?,
            Weakness::HiddenPathsShown => show_hidden_paths()?,
            Weakness::SetuidFilesHonoured => of_root -= MountFlags::NOSUID,
            Weakness::DeviceFilesHonoured => of_root -= MountFlags::NODEV,
            Weakness::Shared(path) => {
                let tree = held.iter().find(|(of, _)| of == path).ok_or(io::ErrorKind::NotFound)?;
                fs::create_dir_all(path)?;
                move_mount(&tree.1, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
            }
            _ => {}
        }
    }
    Ok(mount_remount("/", of_root, c"")?)
}

fn show_hidden_paths() -> io::Result<()> {
    for path in HIDDEN.iter().filter(|path| Path::new(path).exists()) {
        unmount(*path, UnmountFlags::DETACH)?;
    }
    Ok(())
}

/// In the keeper, once it is confined.
pub(crate) fn uncover_keeper() -> io::Result<()> {
    if has(&Weakness::KeeperReadable) {
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    }
    Ok(())
}

/// Whether a child keeps more than its own descriptors.
pub(crate) fn keeps_descriptors() -> bool {
    let keeps =
        |it: &Weakness| matches!(it, Weakness::DescriptorsKeptUntilExec | Weakness::LeakedDirectory(_));
    all().iter().any(keeps)
}

/// In a child, before it becomes its program.
pub(crate) fn leak() -> io::Result<()> {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    for (path, descriptor) in held.iter() {
        if has(&Weakness::LeakedDirectory(path.clone())) {
            kernel::duplicate_as(descriptor, LEAKED)?;
        }
    }
    Ok(())
}
