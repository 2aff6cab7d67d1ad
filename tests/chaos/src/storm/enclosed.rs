//! A process with namespaces of its own for processes and mounts: what it starts and mounts cannot outlive it, however
//! it ends.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use rustix::process::{Pid, WaitOptions, wait};

/// This program in another role, enclosed. Whoever kills the process that is started here kills all of it.
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
    command.arg(own).arg("first").args(role);
    Ok(command)
}

/// Process 1 of the enclosure: it buries whoever dies without a parent, and ends with its one child.
pub(crate) fn be_the_first(role: &[String]) -> Result<ExitCode> {
    let own = std::env::current_exe().context("could not find this program's own file")?;
    let child = Command::new(own).args(role).spawn().context("could not start in the enclosure")?;
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("it has no number")?;
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
