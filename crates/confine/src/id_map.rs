//! The ids of a user namespace.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use crate::syscalls::{Cloned, clone_process, exit_now};

/// Maps ids 0 to `count - 1` inside to ids outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMap {
    pub uid: u32,
    pub gid: u32,
    pub count: u32,
}

/// Sets the maps of a new user namespace, whose only process is `pid`.
pub fn map_ids(pid: i32, ids: IdMap) -> io::Result<()> {
    if ids.count == 1 {
        // Without privilege only one id can be mapped, and only after setgroups is denied.
        fs::write(format!("/proc/{pid}/setgroups"), "deny")?;
    }
    // Map the user ids.
    fs::write(format!("/proc/{pid}/uid_map"), format!("0 {} {}", ids.uid, ids.count))?;
    // Map the group ids.
    fs::write(format!("/proc/{pid}/gid_map"), format!("0 {} {}", ids.gid, ids.count))
}

/// Makes a user namespace that maps ids from `first` on to those of a sandbox. Its only process exits when the pipe
/// closes; the returned descriptor keeps the namespace.
pub fn new_idmap_namespace(first: u32, ids: IdMap) -> io::Result<OwnedFd> {
    let (mut wait_there, hold_here) = io::pipe()?;
    match clone_process(libc::CLONE_NEWUSER, None)? {
        Cloned::Child => {
            drop(hold_here);
            let _ = wait_there.read(&mut [0]);
            exit_now(0)
        }
        Cloned::Parent { pid, .. } => {
            fs::write(format!("/proc/{pid}/uid_map"), format!("{first} {} {}", ids.uid, ids.count))?;
            fs::write(format!("/proc/{pid}/gid_map"), format!("{first} {} {}", ids.gid, ids.count))?;
            Ok(File::open(format!("/proc/{pid}/ns/user"))?.into())
        }
    }
}
