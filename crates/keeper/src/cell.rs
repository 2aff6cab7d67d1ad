//! A confined process over one directory and nothing else, for work on hostile input: fresh namespaces, the
//! directory as its root, no capability but those over the files in it, and an end that is its starter's.

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getgid, getppid, getrlimit, getuid,
    set_parent_process_death_signal, setrlimit, waitid,
};

use crate::confine::{ApplyError, CapabilitySet, Confinement, Limits, NewPrivileges, PrepareError, Profile};
use crate::kernel::{self, Cloned};
use crate::nursery::map_ids;
use crate::wire::IdMap;
use crate::world::{self, WorldError};

/// What bounds the process besides its walls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub cpu_seconds: u64,
    pub memory_bytes: u64,
    /// Of one file.
    pub file_bytes: u64,
}

/// Ids inside as they are outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// From 0 on to as many ids from `first` on. Only root can give them.
    Range { first: u32, count: u32 },
    /// Id 0 is the caller's own, and there is no other.
    Own,
}

#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    #[error("whoever started this is gone")]
    Abandoned,
    #[error("the ids were not mapped")]
    Unmapped { source: io::Error },
    #[error("could not make the directory the root")]
    Root { source: WorldError },
    #[error("could not become root of its own namespace")]
    StepDown { source: io::Error },
    #[error("could not bound {resource:?}")]
    Bound { resource: Resource, source: io::Error },
    #[error("could not let go of descriptors")]
    Descriptors { source: io::Error },
    #[error("could not prepare its confinement")]
    Prepare { source: PrepareError },
    #[error("could not be confined")]
    Confine { source: ApplyError },
}

/// Open files at one time: a handful per level of a walk is not needed, a path is opened anew from the root.
const OPEN_FILES: u64 = 64;
/// Only over files of its own ids, since the user namespace owns nothing else.
const CAPABILITIES: CapabilitySet =
    CapabilitySet::CHOWN.union(CapabilitySet::FOWNER).union(CapabilitySet::DAC_OVERRIDE);

/// Does `work` in a process whose root is the working directory of this one, and gives its exit code. Standard
/// input, output and error are the same inside; every other descriptor is closed, here too.
///
/// Both processes end with `starter`, the parent of this one. Call it in a process with a single thread.
pub fn run(
    starter: Pid,
    ids: Ids,
    bounds: Bounds,
    work: impl FnOnce(Result<(), EnterError>) -> u8,
) -> io::Result<u8> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(starter) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    kernel::close_from(3)?;
    let (mapped_here, mut map_there) = io::pipe()?;
    match kernel::clone_into(NAMESPACES, None)? {
        Cloned::Child => {
            drop(map_there);
            let code = work(enter(mapped_here, bounds));
            kernel::vanish(i32::from(code))
        }
        Cloned::Parent { pid, pidfd } => {
            map_ids(pid, outside(ids))?;
            map_there.write_all(&[1])?;
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
/// What a shell says of a program that was killed.
const KILLED: u8 = 137;

fn outside(ids: Ids) -> IdMap {
    match ids {
        Ids::Range { first, count } => IdMap { uid: first, gid: first, count },
        Ids::Own => IdMap { uid: getuid().as_raw(), gid: getgid().as_raw(), count: 1 },
    }
}

fn enter(mut mapped: PipeReader, bounds: Bounds) -> Result<(), EnterError> {
    mapped.read_exact(&mut [0]).map_err(|source| EnterError::Unmapped { source })?;
    world::keep_mounts_to_ourselves().map_err(|source| EnterError::Root { source })?;
    let root = world::take_tree(Path::new(".")).map_err(|source| EnterError::Root { source })?;
    kernel::become_user(0, 0).map_err(|source| EnterError::StepDown { source })?;
    world::change_root(&root).map_err(|source| EnterError::Root { source })?;
    end_with_starter(&mapped)?;
    drop((root, mapped));
    kernel::close_from(3).map_err(|source| EnterError::Descriptors { source })?;
    for (resource, most) in [
        (Resource::Cpu, bounds.cpu_seconds),
        (Resource::As, bounds.memory_bytes),
        (Resource::Fsize, bounds.file_bytes),
        // This process is the one.
        (Resource::Nproc, 1),
    ] {
        at_most(resource, most).map_err(|source| EnterError::Bound { resource, source })?;
    }
    let profile = Profile {
        capabilities: CAPABILITIES,
        new_privileges: NewPrivileges::Refused,
        limits: Limits {
            open_files: OPEN_FILES,
            locked_bytes: 0,
            message_queue_bytes: 0,
            queued_signals: 16,
        },
        open_doors: vec![],
    };
    let confinement = Confinement::prepare(&profile).map_err(|source| EnterError::Prepare { source })?;
    confinement.apply().map_err(|source| EnterError::Confine { source })
}

/// After the change of ids, which would undo it. If the starter went before, its end of the pipe went too.
fn end_with_starter(pipe: &PipeReader) -> Result<(), EnterError> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|_| EnterError::Abandoned)?;
    let mut ends = [PollFd::new(pipe, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut ends, Some(&now)) {
        Ok(0) => Ok(()),
        Ok(_) | Err(_) => Err(EnterError::Abandoned),
    }
}

fn at_most(resource: Resource, most: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
    Ok(setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?)
}
