//! Runs a process in its own pid and mount namespaces: what it starts and mounts cannot outlive it.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use rustix::process::{Pid, WaitOptions, wait};

/// This program in another role, in new namespaces. Killing the returned command's process kills all of them.
pub(crate) fn command(role: &[String]) -> Result<Command> {
    let own = std::env::current_exe().context("could not find this program's own file")?;
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--",
    ]);
    command.arg(own).arg("init").args(role);
    Ok(command)
}

/// Process 1 of the namespace: reaps orphans, and exits with its one child.
pub(crate) fn run_init(role: &[String]) -> Result<ExitCode> {
    let own = std::env::current_exe().context("could not find this program's own file")?;
    let child = Command::new(own).args(role).spawn().context("could not start the role")?;
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("invalid pid")?;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => {
                let code = status.exit_status().and_then(|code| u8::try_from(code).ok());
                return Ok(ExitCode::from(code.unwrap_or(1)));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("could not wait"),
        }
    }
}
