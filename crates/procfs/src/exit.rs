//! How a process ended, asked by a pidfd that was opened while it ran. Needs no relation to the process: it may be
//! reaped by another one. Linux 6.15 and later answer.

#![allow(unsafe_code, reason = "the kernel's own interface")]

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    Exited(i32),
    Killed { signal: i32 },
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with status {code}"),
            Self::Killed { signal } => write!(f, "was killed by signal {signal}"),
        }
    }
}

/// `struct pidfd_info`, first version.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup_id: u64,
    /// Pid, thread group, parent, and eight user and group ids.
    ids: [u32; 11],
    exit_code: i32,
}

/// Ask for the exit status (`PIDFD_INFO_EXIT`).
const INFO_EXIT: u64 = 1 << 3;
/// `_IOWR(0xFF, 11, struct pidfd_info)`.
const GET_INFO: libc::c_ulong =
    (3 << 30) | ((size_of::<PidfdInfo>() as libc::c_ulong) << 16) | (0xFF << 8) | 11;

/// None: it still runs, or the kernel does not tell.
pub fn process_end(pidfd: impl AsFd) -> io::Result<Option<ProcessEnd>> {
    let mut info = PidfdInfo { mask: INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the kernel writes at most the size that is part of the request into `info`, which lives until then.
    let asked = unsafe { libc::ioctl(pidfd.as_fd().as_raw_fd(), GET_INFO, &raw mut info) };
    if asked < 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            // An older kernel, or a process that was reaped before its pidfd was opened.
            Some(libc::ENOTTY | libc::EINVAL | libc::ESRCH) => Ok(None),
            _ => Err(error),
        };
    }
    if info.mask & INFO_EXIT == 0 {
        return Ok(None);
    }
    let status = info.exit_code;
    Ok(Some(if libc::WIFSIGNALED(status) {
        ProcessEnd::Killed { signal: libc::WTERMSIG(status) }
    } else {
        ProcessEnd::Exited(libc::WEXITSTATUS(status))
    }))
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::process::{Child, Command};

    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    fn open(child: &Child) -> OwnedFd {
        pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap()
    }

    /// Whether this kernel tells how a process ended.
    fn is_told() -> bool {
        let mut child = Command::new("true").spawn().unwrap();
        let pidfd = open(&child);
        child.wait().unwrap();
        process_end(&pidfd).unwrap().is_some()
    }

    #[test]
    fn end_of_a_reaped_process_is_told_by_its_pidfd() {
        if !is_told() {
            return;
        }
        let mut exited = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let mut killed = Command::new("sleep").arg("60").spawn().unwrap();
        let pidfds = [open(&exited), open(&killed)];
        let while_it_runs = process_end(&pidfds[1]).unwrap();
        killed.kill().unwrap();
        killed.wait().unwrap();
        exited.wait().unwrap();

        let ends = pidfds.map(|pidfd| process_end(pidfd).unwrap());

        assert_eq!(while_it_runs, None);
        assert_eq!(ends, [Some(ProcessEnd::Exited(7)), Some(ProcessEnd::Killed { signal: 9 })]);
    }
}
