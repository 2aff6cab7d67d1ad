//! Runs a function in a jailed process that sees one directory only, for work on hostile input: new namespaces, the
//! directory as its root, no capabilities except over the files in it. It dies with its parent.

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getgid, getppid, getrlimit, getuid,
    set_parent_process_death_signal, setrlimit, waitid,
};

use crate::limits::name as limit_name;
use crate::mounts::{self, MountError};
use crate::syscalls::{self, Cloned};
use crate::{
    ApplyError, CapabilitySet, Confinement, IdMap, Limits, NewPrivileges, PrepareError, Profile, map_ids,
};

/// Resource limits of the jailed process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JailLimits {
    pub cpu_seconds: u64,
    pub memory_bytes: u64,
    /// Size of one file.
    pub file_bytes: u64,
}

/// How user and group ids inside map to ids outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JailIds {
    /// Ids 0 to `count - 1` map to ids from `first` on. Requires root.
    Range { first: u32, count: u32 },
    /// Id 0 maps to the caller's own id. There is no other.
    Own,
}

#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    #[error("the parent process is gone")]
    ParentGone,
    #[error("the parent did not map the ids")]
    IdsNotMapped { source: io::Error },
    #[error("could not change the root to the directory")]
    Root { source: MountError },
    #[error("could not switch to uid 0 of the new user namespace")]
    SetIds { source: io::Error },
    #[error("could not set the resource limit {}", limit_name(*resource))]
    ResourceLimit { resource: Resource, source: io::Error },
    #[error("could not close inherited descriptors")]
    Descriptors { source: io::Error },
    #[error("could not prepare the confinement")]
    Prepare { source: PrepareError },
    #[error("could not apply the confinement")]
    Confine { source: ApplyError },
}

/// Limit of open files. Small: the unpacker opens each path from the root and keeps few descriptors.
const OPEN_FILES: u64 = 64;
/// Effective only on files with mapped ids: the user namespace owns nothing else.
const CAPABILITIES: CapabilitySet =
    CapabilitySet::CHOWN.union(CapabilitySet::FOWNER).union(CapabilitySet::DAC_OVERRIDE);

/// Runs `work` in a child process whose root is this process's working directory. Returns the child's exit code.
/// The child inherits standard input, output and error. All other descriptors are closed in both processes.
///
/// Both processes die with `parent`, the parent of this one. Call it in a single-threaded process.
pub fn run(
    parent: Pid,
    ids: JailIds,
    bounds: JailLimits,
    work: impl FnOnce(Result<(), EnterError>) -> u8,
) -> io::Result<u8> {
    // Ask the kernel for SIGKILL when the parent dies (PR_SET_PDEATHSIG).
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before that call: then this process already has another parent.
    if getppid() != Some(parent) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    syscalls::close_from(3)?;
    let (mapped_reader, mut mapped_writer) = io::pipe()?;
    match syscalls::clone_process(NAMESPACES, None)? {
        Cloned::Child => {
            drop(mapped_writer);
            let code = work(enter(mapped_reader, bounds));
            syscalls::exit_now(i32::from(code))
        }
        Cloned::Parent { pid, pidfd } => {
            map_ids(pid, id_map(ids))?;
            mapped_writer.write_all(&[1])?;
            // Wait for the child (waitid).
            let status = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)?;
            let code = status.and_then(|status| status.exit_status());
            Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(KILLED))
        }
    }
}

const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;
/// A shell's exit code for a command killed by SIGKILL.
const KILLED: u8 = 137;

fn id_map(ids: JailIds) -> IdMap {
    match ids {
        JailIds::Range { first, count } => IdMap { uid: first, gid: first, count },
        JailIds::Own => IdMap { uid: getuid().as_raw(), gid: getgid().as_raw(), count: 1 },
    }
}

fn enter(mut mapped: PipeReader, bounds: JailLimits) -> Result<(), EnterError> {
    mapped.read_exact(&mut [0]).map_err(|source| EnterError::IdsNotMapped { source })?;
    mounts::make_mounts_private().map_err(|source| EnterError::Root { source })?;
    let root = mounts::clone_mount(Path::new(".")).map_err(|source| EnterError::Root { source })?;
    syscalls::set_ids(0, 0).map_err(|source| EnterError::SetIds { source })?;
    mounts::change_root(&root).map_err(|source| EnterError::Root { source })?;
    mounts::remount_root_nosuid().map_err(|source| EnterError::Root { source })?;
    die_with_parent(&mapped)?;
    drop((root, mapped));
    syscalls::close_from(3).map_err(|source| EnterError::Descriptors { source })?;
    for (resource, most) in [
        (Resource::Cpu, bounds.cpu_seconds),
        (Resource::As, bounds.memory_bytes),
        (Resource::Fsize, bounds.file_bytes),
        // No further process beside this one.
        (Resource::Nproc, 1),
    ] {
        lower_limit(resource, most).map_err(|source| EnterError::ResourceLimit { resource, source })?;
    }
    let profile = Profile {
        capabilities: CAPABILITIES,
        new_privileges: NewPrivileges::Refused,
        limits: Limits {
            open_files: OPEN_FILES,
            locked_bytes: 0,
            message_queue_bytes: 0,
            queued_signals: 16,
            file_locks: 0,
        },
        allowed_groups: vec![],
    };
    let confinement = Confinement::prepare(&profile).map_err(|source| EnterError::Prepare { source })?;
    confinement.apply().map_err(|source| EnterError::Confine { source })
}

/// Arranges SIGKILL on the parent's death. Must come after the change of ids, which resets the setting. If the parent
/// died before, its end of the pipe is closed, which poll reports.
fn die_with_parent(pipe: &PipeReader) -> Result<(), EnterError> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|_| EnterError::ParentGone)?;
    let mut ends = [PollFd::new(pipe, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut ends, Some(&now)) {
        Ok(0) => Ok(()),
        Ok(_) | Err(_) => Err(EnterError::ParentGone),
    }
}

fn lower_limit(resource: Resource, most: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
    Ok(setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?)
}
