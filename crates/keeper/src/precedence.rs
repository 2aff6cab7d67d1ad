//! Who goes first where there is not enough processor for all: keepers and the server do little, and what they do is
//! waited for. What runs inside has no more of it than anybody else.

use std::fs;
use std::io;

use rustix::process::{setpriority_process, setsid};

/// As the kernel counts it: nine times the share of anybody else.
const OURS: i32 = -10;
const ANYBODY: i32 = 0;
/// Hosts without control groups for processors share them out by sessions.
const OWN_SESSION: &str = "/proc/self/autogroup";

/// For this process and its children, in a session of their own: a terminal's signals are not for them.
pub(crate) fn take_apart() {
    let _already_leads = setsid();
    take();
}

/// For a process that leads its session, as a service does. Anybody else shares it with a shell, whose business it is
/// who goes first there.
pub fn take_if_alone() {
    if session() == Some(std::process::id()) {
        take();
    }
}

/// Who leads our session: nobody that has a number here, in a namespace whose first process was started in the session
/// of somebody outside. The system call says zero then, which rustix takes for impossible.
fn session() -> Option<u32> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name is in brackets and may hold anything, brackets too.
    stat[stat.rfind(')')? + 1..].split_whitespace().nth(3)?.parse().ok()
}

/// An ordinary user may not go first, and a host may share by other rules.
fn take() {
    let _not_allowed = setpriority_process(None, OURS);
    let _not_shared_so = fs::write(OWN_SESSION, OURS.to_string());
}

/// In a child of a keeper, before it is anybody else's.
pub(crate) fn give_up() -> io::Result<()> {
    setsid()?;
    Ok(setpriority_process(None, ANYBODY)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_the_one_that_the_kernel_names() {
        let told = rustix::process::getsid(None).unwrap();

        assert_eq!(
            session().and_then(|leader| i32::try_from(leader).ok()),
            Some(told.as_raw_nonzero().get())
        );
    }
}
