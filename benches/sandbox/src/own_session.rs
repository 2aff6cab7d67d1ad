//! A benchmark leads a session of its own, as a server does, and so goes before its sandboxes as a server does.

use std::env::{args_os, current_exe};
use std::process::{Command, ExitStatus};

use anyhow::Result;
use pinfold_keeper::precedence;
use rustix::process::{Signal, getppid, set_parent_process_death_signal, setsid};

/// Tells the two apart.
const INSIDE: &str = "PINFOLD_BENCH_SESSION";

/// None: this process leads a session now, and goes on. Else another one did, and has ended like this.
pub(crate) fn enter() -> Result<Option<ExitStatus>> {
    if std::env::var_os(INSIDE).is_none() {
        let again = Command::new(current_exe()?).args(args_os().skip(1)).env(INSIDE, "1").status()?;
        return Ok(Some(again));
    }
    setsid()?;
    // Ctrl-C reaches only the other one, and this one through its end.
    set_parent_process_death_signal(Some(Signal::INT))?;
    if getppid().is_none_or(|parent| parent.is_init()) {
        anyhow::bail!("interrupted");
    }
    precedence::take_if_alone();
    Ok(None)
}
