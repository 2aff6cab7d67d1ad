//! Runs a benchmark as leader of its own session, as a server is, so that it gets the same priority over its
//! sandboxes.

use std::env::{args_os, current_exe};
use std::process::{Command, ExitStatus};

use anyhow::Result;
use pinfold_keeper::priority;
use rustix::process::{Signal, getppid, set_parent_process_death_signal, setsid};

/// Set in the process that leads the new session.
const INSIDE: &str = "PINFOLD_BENCH_SESSION";

/// None: this process leads its own session and continues. Else a child did, and has exited with this status.
pub(crate) fn enter() -> Result<Option<ExitStatus>> {
    if std::env::var_os(INSIDE).is_none() {
        let again = Command::new(current_exe()?).args(args_os().skip(1)).env(INSIDE, "1").status()?;
        return Ok(Some(again));
    }
    setsid()?;
    // Ctrl-C reaches only the parent, whose death interrupts this process.
    set_parent_process_death_signal(Some(Signal::INT))?;
    if getppid().is_none_or(|parent| parent.is_init()) {
        anyhow::bail!("interrupted");
    }
    priority::raise_if_session_leader();
    Ok(None)
}
