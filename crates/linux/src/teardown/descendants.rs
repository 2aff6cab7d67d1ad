//! Kills all descendants of a process, for an instance without cgroups. Every process inside stays a descendant of
//! its keeper, since orphans are reparented to it.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::processes::{descendants, parents};

/// Maximum pidfds held open at a time.
const BATCH: usize = 256;

/// Kills the process and all descendants visible now. They may fork meanwhile, so the caller repeats this.
pub(super) fn kill(process: Pid, handle: &OwnedFd) -> io::Result<()> {
    let found: Vec<i32> = below(process)?.into_iter().collect();
    for batch in found.chunks(BATCH) {
        let mut held = Vec::with_capacity(batch.len());
        for &number in batch {
            let Some(pid) = Pid::from_raw(number) else { continue };
            match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(descriptor) => held.push((number, descriptor)),
                Err(Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // A pid that is still a descendant belongs to the process whose pidfd we hold, or that process is dead.
        let still = below(process)?;
        if !signal(handle)? {
            // Its pid may have been reused by now, and so may those of its descendants.
            return Ok(());
        }
        for (_, descriptor) in held.iter().filter(|(number, _)| still.contains(number)) {
            signal(descriptor)?;
        }
    }
    Ok(())
}

/// Sends SIGKILL. Returns whether the process exists, if only as a zombie.
fn signal(process: &OwnedFd) -> io::Result<bool> {
    match pidfd_send_signal(process, Signal::KILL) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn below(process: Pid) -> io::Result<BTreeSet<i32>> {
    let parents = parents(Path::new("/proc"))?;
    Ok(descendants(&parents, process.as_raw_nonzero().get()).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::Duration;

    use pinfold_procfs::start_time;

    use super::*;
    use crate::bounded_wait::BoundedWait;

    fn until(mut is_so: impl FnMut() -> bool) {
        let mut wait = BoundedWait::new(Duration::from_secs(10));
        while !is_so() {
            wait.pause().unwrap();
        }
    }

    fn start(script: &str) -> (Child, Pid, OwnedFd) {
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let handle = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        (child, pid, handle)
    }

    #[test]
    fn all_descendants_of_a_process_are_killed_and_no_others() {
        let (mut first, pid, handle) = start("sleep 60 & sh -c 'sleep 60 & wait' & wait");
        let (mut other, ..) = start("sleep 60; :");
        until(|| below(pid).unwrap().len() == 3);
        let found = below(pid).unwrap();

        kill(pid, &handle).unwrap();

        first.wait().unwrap();
        until(|| found.iter().all(|number| start_time(*number).unwrap().is_none()));
        assert_eq!(other.try_wait().unwrap(), None);
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
