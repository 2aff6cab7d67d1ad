//! Ending all processes of a group: in one call where the kernel has it, else one by one by descriptor.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::patience::Patience;

use super::body::{BodyCgroup, WORK};
use super::empty::EmptyError;
use super::files;
use super::group::Group;
use super::processes::ProcessesError;
use super::survey::Version;

/// How long the kill one by one goes on. A frozen group needs one round; one that cannot be frozen may fork on.
const LOOP_WITHIN: Duration = Duration::from_secs(5);
/// Descriptors held at a time.
const BATCH: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum KillError {
    #[error("could not write `{}`", path.display())]
    Kill { path: PathBuf, source: io::Error },
    #[error("could not end process {pid}")]
    Signal { pid: u32, source: io::Error },
    #[error("cgroup `{}` still holds processes after {} ms of killing", path.display(), LOOP_WITHIN.as_millis())]
    StillAlive { path: PathBuf },
    #[error(transparent)]
    Processes(#[from] ProcessesError),
}

#[derive(Debug, thiserror::Error)]
pub enum EndError {
    #[error(transparent)]
    Kill(#[from] KillError),
    #[error("cgroup of `{name}` still holds processes after {} ms", within.as_millis())]
    StillAlive { name: String, within: Duration },
    #[error(transparent)]
    Look(#[from] EmptyError),
}

impl BodyCgroup {
    /// Ends the work and leaves the keeper alone. Nothing there is nothing to end.
    pub fn kill_work(&self) -> Result<(), KillError> {
        self.all_tracked().try_for_each(|it| it.child(WORK).kill())
    }

    /// Ends the work and the keeper. They are gone a moment later: see [`BodyCgroup::wait_empty`].
    pub fn kill_all(&self) -> Result<(), KillError> {
        self.all_tracked().try_for_each(Group::kill)
    }

    /// Whether the group that holds all of the body's processes holds any.
    pub fn lives(&self) -> Result<bool, EmptyError> {
        for group in self.all_tracked() {
            if !group.is_empty()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends everything in any group of the body and waits until it is gone, also what was on its way in and had
    /// joined some of the groups only.
    pub fn end_all(&self, within: Duration) -> Result<(), EndError> {
        if self.lives()? {
            self.kill_all()?;
        }
        let mut patience = Patience::of(within);
        while let Some(busy) = self.first_busy()? {
            // Its processes are on their way out if it tracks them; else it holds some that the kill did not reach.
            let tracked_is_done = self.all_tracked().all(|it| it != busy);
            if tracked_is_done {
                busy.kill_one_by_one()?;
            }
            if patience.pause().is_err() {
                let name = self.name().to_owned();
                return Err(EndError::StillAlive { name, within });
            }
        }
        Ok(())
    }

    /// The tracking group comes before others.
    fn first_busy(&self) -> Result<Option<&Group>, EmptyError> {
        let first = self.all_tracked();
        for group in first.chain(self.places.iter().map(|it| &it.group)) {
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
            // The group is not there, or the kernel is older than the file (5.14).
            Err(error) if files::is_gone(&error) => self.kill_one_by_one(),
            done => done.map_err(|source| KillError::Kill { path, source }),
        }
    }

    /// Holds the group still, so that what is listed is all there is, and ends it; until nothing is left.
    pub(super) fn kill_one_by_one(&self) -> Result<(), KillError> {
        let mut patience = Patience::of(LOOP_WITHIN);
        loop {
            let listed = self.processes()?;
            if listed.is_empty() {
                return Ok(());
            }
            self.freeze(true);
            let killed = self.kill_listed();
            // In v1 a frozen process dies only when it is thawed.
            self.freeze(false);
            killed?;
            if patience.pause().is_err() {
                return Err(KillError::StillAlive { path: self.directory.clone() });
            }
        }
    }

    /// Helps and is not needed: most v1 hierarchies cannot, and without it the killing only takes more rounds.
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

    /// A number may have passed to a stranger since it was listed. So each is listed again once a descriptor holds
    /// it: if it is still listed then, the descriptor is of a process of ours, or of one that is dead.
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
