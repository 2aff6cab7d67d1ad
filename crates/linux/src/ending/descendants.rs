//! Ending all processes below one, for a body without groups, which would know them. Whatever is born inside stays below
//! its keeper, since orphans there become the keeper's own children.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::inside::{descendants, parents};

/// Descriptors held at a time.
const BATCH: usize = 256;

/// Kills the process and all below it that can be seen at this moment. They may fork on: to be repeated.
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
        // Whoever is still below it is whom we hold, or that one is dead.
        let still = below(process)?;
        if !signal(handle)? {
            // By now its number may be another's, and so may those below.
            return Ok(());
        }
        for (_, descriptor) in held.iter().filter(|(number, _)| still.contains(number)) {
            signal(descriptor)?;
        }
    }
    Ok(())
}

/// Says whether it was there, if only to be reaped.
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

    use pinfold_keeper::process::began;

    use super::*;
    use crate::patience::Patience;

    fn until(mut is_so: impl FnMut() -> bool) {
        let mut patience = Patience::of(Duration::from_secs(10));
        while !is_so() {
            patience.pause().unwrap();
        }
    }

    fn start(script: &str) -> (Child, Pid, OwnedFd) {
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let handle = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        (child, pid, handle)
    }

    #[test]
    fn all_below_a_process_are_killed_and_nobody_else() {
        let (mut first, pid, handle) = start("sleep 60 & sh -c 'sleep 60 & wait' & wait");
        let (mut other, ..) = start("sleep 60; :");
        until(|| below(pid).unwrap().len() == 3);
        let found = below(pid).unwrap();

        kill(pid, &handle).unwrap();

        first.wait().unwrap();
        until(|| found.iter().all(|number| began(*number).unwrap().is_none()));
        assert_eq!(other.try_wait().unwrap(), None);
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
