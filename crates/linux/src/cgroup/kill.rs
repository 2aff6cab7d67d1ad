//! Kills all processes of a cgroup: in one call where the kernel supports it, else one by one by pidfd.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::bounded_wait::BoundedWait;

use super::detect::Version;
use super::empty::EmptyError;
use super::files;
use super::group::Group;
use super::instance::{InstanceCgroup, WORK};
use super::processes::ProcessesError;

/// Time limit of killing one by one. A frozen cgroup needs one round; one that cannot be frozen may keep forking.
const KILL_LOOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum pidfds held open at a time.
const BATCH: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum KillError {
    #[error("could not write `{}`", path.display())]
    Kill { path: PathBuf, source: io::Error },
    #[error("could not end process {pid}")]
    Signal { pid: u32, source: io::Error },
    #[error("cgroup `{}` still holds processes after {} ms of killing", path.display(), KILL_LOOP_TIMEOUT.as_millis())]
    StillAlive { path: PathBuf },
    #[error(transparent)]
    Processes(#[from] ProcessesError),
}

#[derive(Debug, thiserror::Error)]
pub enum KillAllError {
    #[error(transparent)]
    Kill(#[from] KillError),
    #[error("cgroup of `{name}` still holds processes after {} ms", within.as_millis())]
    StillAlive { name: String, within: Duration },
    #[error(transparent)]
    Check(#[from] EmptyError),
}

impl InstanceCgroup {
    /// Kills the workload but not the keeper. Does nothing if there is none.
    pub fn kill_work(&self) -> Result<(), KillError> {
        self.all_tracked().try_for_each(|it| it.child(WORK).kill())
    }

    /// Kills workload and keeper. They exit a moment later: see [`InstanceCgroup::wait_empty`].
    pub fn kill_all(&self) -> Result<(), KillError> {
        self.all_tracked().try_for_each(Group::kill)
    }

    /// Whether the tracking cgroup holds any process.
    pub fn is_populated(&self) -> Result<bool, EmptyError> {
        for group in self.all_tracked() {
            if !group.is_empty()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Kills everything in any cgroup of the instance and waits until it is gone, including processes that had joined
    /// only some of the cgroups.
    pub fn kill_all_and_wait(&self, within: Duration) -> Result<(), KillAllError> {
        if self.is_populated()? {
            self.kill_all()?;
        }
        let mut wait = BoundedWait::new(within);
        while let Some(populated) = self.first_populated()? {
            // The tracking cgroup's processes are dying already; another cgroup holds processes that the kill did not
            // reach.
            let tracked_is_done = self.all_tracked().all(|it| it != populated);
            if tracked_is_done {
                populated.kill_one_by_one()?;
            }
            if wait.pause().is_err() {
                let name = self.name().to_owned();
                return Err(KillAllError::StillAlive { name, within });
            }
        }
        Ok(())
    }

    /// The first cgroup with processes; the tracking cgroup comes first.
    fn first_populated(&self) -> Result<Option<&Group>, EmptyError> {
        let first = self.all_tracked();
        for group in first.chain(self.groups.iter().map(|it| &it.group)) {
            if !group.is_empty()? {
                return Ok(Some(group));
            }
        }
        Ok(None)
    }
}

impl Group {
    pub(super) fn kill(&self) -> Result<(), KillError> {
        if self.version == Version::V1 {
            return self.kill_one_by_one();
        }
        let path = self.file("cgroup.kill");
        match files::write(&path, "1") {
            // The cgroup does not exist, or the kernel predates `cgroup.kill` (5.14).
            Err(error) if files::is_gone(&error) => self.kill_one_by_one(),
            done => done.map_err(|source| KillError::Kill { path, source }),
        }
    }

    /// Freezes the cgroup, so that the listed processes are all, and kills them; repeats until none is left.
    pub(super) fn kill_one_by_one(&self) -> Result<(), KillError> {
        let mut wait = BoundedWait::new(KILL_LOOP_TIMEOUT);
        loop {
            let listed = self.processes()?;
            if listed.is_empty() {
                return Ok(());
            }
            self.freeze(true);
            let killed = self.kill_listed();
            // In v1 a frozen process dies only after it is thawed.
            self.freeze(false);
            killed?;
            if wait.pause().is_err() {
                return Err(KillError::StillAlive { path: self.directory.clone() });
            }
        }
    }

    /// Optional: most v1 hierarchies cannot freeze, and then the kill only takes more rounds.
    fn freeze(&self, frozen: bool) {
        let _cannot = match (self.version, frozen) {
            (Version::V1, true) => files::write(&self.file("freezer.state"), "FROZEN"),
            (Version::V1, false) => files::write(&self.file("freezer.state"), "THAWED"),
            (Version::V2, true) => files::write(&self.file("cgroup.freeze"), "1"),
            (Version::V2, false) => files::write(&self.file("cgroup.freeze"), "0"),
        };
    }

    fn kill_listed(&self) -> Result<(), KillError> {
        let listed: Vec<u32> = self.processes()?.into_iter().collect();
        listed.chunks(BATCH).try_for_each(|batch| self.kill_batch(batch))
    }

    /// A pid may have been reused since it was listed. So the list is read again after the pidfds are opened: a pid
    /// that is still listed belongs to a process of this cgroup, or to a dead one.
    fn kill_batch(&self, batch: &[u32]) -> Result<(), KillError> {
        let mut held = Vec::with_capacity(batch.len());
        for &pid in batch {
            let Some(target) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { continue };
            match pidfd_open(target, PidfdFlags::empty()) {
                Ok(descriptor) => held.push((pid, descriptor)),
                Err(Errno::SRCH) => {}
                Err(error) => return Err(KillError::Signal { pid, source: error.into() }),
            }
        }
        let listed: BTreeSet<u32> = self.processes()?;
        for (pid, descriptor) in held.into_iter().filter(|(pid, _)| listed.contains(pid)) {
            match pidfd_send_signal(&descriptor, Signal::KILL) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => return Err(KillError::Signal { pid, source: error.into() }),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "kill/tests.rs"]
mod tests;
