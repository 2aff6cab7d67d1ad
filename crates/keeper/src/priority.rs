//! CPU priority. The server and keepers do little work, but clients wait for it, so they run at a higher priority than
//! other processes. Executions run at normal priority.

use std::fs;
use std::io;
use std::path::Path;

use pinfold_procfs::Stat;
use rustix::process::{getpriority_process, setpriority_process, setsid};

/// Nice value of the server and keepers: about nine times the normal CPU share.
const RAISED: i32 = -10;
const NORMAL: i32 = 0;
/// Autogroup of this session: hosts without a cpu cgroup schedule by sessions.
const AUTOGROUP: &str = "/proc/self/autogroup";

/// Starts a new session, which terminal signals do not reach, and raises the priority of this process and its children.
pub(crate) fn raise_in_new_session() {
    // Start a new session (setsid). Fails if this process already leads one.
    let _already_leads = setsid();
    raise();
}

/// Raises the priority if this process leads its session, as a service does. Otherwise the session belongs to a shell,
/// whose priorities stay as they are.
pub fn raise_if_session_leader() {
    if session_leader() == Some(std::process::id()) {
        raise();
    }
}

/// Pid of the session leader. Zero if the leader is outside this pid namespace; read from `/proc` because rustix's
/// getsid does not support zero.
fn session_leader() -> Option<u32> {
    u32::try_from(Stat::read_in(Path::new("/proc/self")).ok()??.session).ok()
}

/// Raises the priority where permitted. A process that was started with a lowered priority keeps it.
fn raise() {
    if getpriority_process(None).is_ok_and(|own| own > NORMAL) {
        return;
    }
    // Raise the priority (setpriority).
    let _not_allowed = setpriority_process(None, RAISED);
    let _no_autogroup = fs::write(AUTOGROUP, RAISED.to_string());
}

/// In a child of a keeper: starts a new session and returns to normal priority. A lowered priority stays.
pub(crate) fn reset_in_new_session() -> io::Result<()> {
    // Start a new session (setsid).
    setsid()?;
    if getpriority_process(None)? < NORMAL {
        setpriority_process(None, NORMAL)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_session_leader_is_found() {
        assert!(session_leader().is_some());
    }
}
