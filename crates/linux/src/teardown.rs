//! Teardown of one instance: kills its processes, removes its files and cgroups, frees its ids. All of it is blocking
//! work that needs no answer from the keeper.

mod descendants;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::bounded_wait::BoundedWait;
use crate::cgroup::{CgroupUsage, Cgroups, InstanceCgroup};
use crate::cgroup_record;
use crate::disk::{release_loop_devices, remove_tree};
use crate::id_ranges::IdRanges;
use crate::paths::InstancePaths;
use crate::pid_lock::{KeeperStatus, block_spawning, keeper_status};

/// How long this attempt waits for a killed process to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long one wait for a killed keeper takes before its status is read again. Its pidfd becomes readable at exit.
const EXIT_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// An instance to be torn down.
#[derive(Clone)]
pub(crate) struct Teardown {
    pub(crate) paths: InstancePaths,
    pub(crate) cgroups: Cgroups,
    pub(crate) ids: IdRanges,
}

/// The result of a teardown.
pub(crate) struct TornDown {
    /// Usage of the whole life of the instance, read after its last process had exited.
    pub(crate) usage: CgroupUsage,
    /// Bytes freed on disk.
    pub(crate) freed_bytes: u64,
    /// The cgroups that were removed, so that a stop can verify their absence.
    pub(crate) groups: InstanceCgroup,
}

impl Teardown {
    /// Kills all processes and waits shortly for the keeper, which exits last.
    pub(crate) fn kill(&self) -> io::Result<()> {
        let groups = cgroup_record::open_cgroups(&self.cgroups, &self.paths)?;
        groups.kill_all().map_err(io::Error::other)?;
        match kill_keeper(&self.paths)? {
            KillResult::Signalled(_, handle) => wait_for_exit(&handle).map(drop),
            KillResult::NoKeeper | KillResult::Retry => Ok(()),
        }
    }

    pub(crate) fn end(&self) -> io::Result<TornDown> {
        let paths = &self.paths;
        self.kill_processes()?;
        let _spawning_blocked = block_spawning(paths)?;
        // Read again: until spawning is blocked a launch could add cgroups.
        let groups = cgroup_record::open_cgroups(&self.cgroups, paths)?;
        let usage = groups.usage();
        let freed_bytes = remove_storage(&paths.storage)?;
        self.ids.free(paths)?;
        groups.remove(EXIT_TIMEOUT).map_err(io::Error::other)?;
        // The control directory goes last, so that what a crash leaves can still be found by its name.
        remove_tree(&paths.control)?;
        self.cgroups.remove_foreign_bases_of(&groups).map_err(io::Error::other)?;
        Ok(TornDown { usage, freed_bytes, groups })
    }

    /// Removes the processes and cgroups of a failed launch, so that another launch can take its place.
    pub(crate) fn clear_failed_launch(&self) -> io::Result<()> {
        self.kill_processes()?;
        // Since Linux 6.14 a process cloned into a cgroup that was ever killed by `cgroup.kill` is killed at once.
        let groups = cgroup_record::open_cgroups(&self.cgroups, &self.paths)?;
        groups.remove(EXIT_TIMEOUT).map_err(io::Error::other)
    }

    /// Kills every process. The cgroups hold all of them; without cgroups, all of them die with the keeper, process 1
    /// of their PID namespace.
    fn kill_processes(&self) -> io::Result<()> {
        let groups = cgroup_record::open_cgroups(&self.cgroups, &self.paths)?;
        // Kill by cgroup only if it is populated. The keeper exits last, and only its pidfd reports the exit at once.
        if groups.is_populated().map_err(io::Error::other)? {
            groups.kill_all().map_err(io::Error::other)?;
        }
        kill_keeper_and_wait(&self.paths, &groups)?;
        groups.kill_all_and_wait(EXIT_TIMEOUT).map_err(io::Error::other)
    }
}

fn kill_keeper_and_wait(paths: &InstancePaths, groups: &InstanceCgroup) -> io::Result<()> {
    let mut wait = BoundedWait::new(EXIT_TIMEOUT);
    loop {
        // Repeated each time: a keeper that is being spawned has no pid yet.
        match kill_keeper(paths)? {
            KillResult::NoKeeper => return Ok(()),
            KillResult::Signalled(pid, handle) => {
                // Process 1 may block in the kernel until its descendants release what it waits for, so kill them
                // too.
                if !wait_for_exit(&handle)? && !groups.tracks() {
                    descendants::kill(pid, &handle)?;
                }
            }
            KillResult::Retry => {}
        }
        // The pid file stays until the keeper is gone: without it the process could not be found any more.
        if wait.pause().is_err() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the keeper is still alive after SIGKILL"));
        }
    }
}

enum KillResult {
    NoKeeper,
    Signalled(Pid, OwnedFd),
    /// A keeper is starting or was replaced meanwhile: look again.
    Retry,
}

/// Kills the keeper by a pidfd that is verified after it was opened, never by a bare pid.
fn kill_keeper(paths: &InstancePaths) -> io::Result<KillResult> {
    let found = keeper_status(paths)?;
    let number = match found {
        KeeperStatus::Absent => return Ok(KillResult::NoKeeper),
        KeeperStatus::Starting => return Ok(KillResult::Retry),
        KeeperStatus::Alive(number, _) => number,
    };
    let Some(pid) = Pid::from_raw(number) else { return Ok(KillResult::Retry) };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(KillResult::NoKeeper),
        Err(error) => return Err(error.into()),
    };
    if keeper_status(paths)? != found {
        return Ok(KillResult::Retry);
    }
    match pidfd_send_signal(&handle, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(KillResult::Signalled(pid, handle)),
        Err(error) => Err(error.into()),
    }
}

/// Waits up to `EXIT_POLL`.
fn wait_for_exit(process: &OwnedFd) -> io::Result<bool> {
    match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&EXIT_POLL)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes the files of an instance, with the file behind a loop device first: data that was never written to it need
/// not be. If an earlier attempt already removed the directory, the final check finds a device that is left.
fn remove_storage(instance: &Path) -> io::Result<u64> {
    match fs::symlink_metadata(instance) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        _ => {}
    }
    let freed = remove_tree(instance)?;
    wait_for_devices(instance)?;
    Ok(freed)
}

/// Waits until no loop device is backed by a file of the instance.
pub(crate) fn wait_for_devices(instance: &Path) -> io::Result<()> {
    release_loop_devices(instance, EXIT_TIMEOUT)
}
