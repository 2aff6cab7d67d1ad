//! Test fixture: forks a child into new namespaces, like those of a sandbox, and runs one action there.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Output, Stdio};

use pinfold_confine::{ApplyError, Confinement, Profile};

use crate::raw_syscalls;

/// How one attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Failed(i32),
    Killed(i32),
}

/// Exit code of a child that could not start the action. Higher than any errno.
const NOT_STARTED: i32 = 255;

/// An action of a child. The error is an errno.
pub(crate) type Act = fn() -> Result<(), i32>;

pub(crate) fn confined(profile: &Profile) -> Confinement {
    Confinement::prepare(profile).unwrap()
}

/// Runs `act` in a confined child that executes nothing.
pub(crate) fn try_confined(profile: &Profile, act: Act) -> Outcome {
    let confinement = confined(profile);
    try_in_namespaces(move || {
        confinement.apply().map_err(|error| errno_of(&error))?;
        Ok(act())
    })
}

/// Runs `act` in new namespaces. The outer result is the preparation, the inner one the attempt.
pub(crate) fn try_in_namespaces(
    mut act: impl FnMut() -> Result<Result<(), i32>, i32> + Send + Sync + 'static,
) -> Outcome {
    let mut command = Command::new("/nowhere");
    let (uid, gid) = raw_syscalls::user_and_group();
    raw_syscalls::before_exec(&mut command, move || {
        if raw_syscalls::enter_namespaces(uid, gid).is_err() {
            raw_syscalls::exit_now(NOT_STARTED);
        }
        match act() {
            Ok(Ok(())) => raw_syscalls::exit_now(0),
            Ok(Err(errno)) => raw_syscalls::exit_now(errno),
            Err(_) => raw_syscalls::exit_now(NOT_STARTED),
        }
    });
    outcome(silent(&mut command).status().unwrap())
}

/// Runs a program to completion, confined before its exec.
pub(crate) fn run_confined(profile: &Profile, command: &mut Command) -> Output {
    let confinement = confined(profile);
    run_after(command, move || confinement.apply().map_err(|error| as_io(&error)))
}

/// Runs a program to completion in new namespaces, after `prepare`.
pub(crate) fn run_after(
    command: &mut Command,
    mut prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) -> Output {
    let (uid, gid) = raw_syscalls::user_and_group();
    raw_syscalls::before_exec(command, move || {
        raw_syscalls::enter_namespaces(uid, gid)?;
        raw_syscalls::raise_loopback()?;
        prepare()
    });
    command.stdin(Stdio::null()).output().unwrap()
}

pub(crate) fn errno_of(error: &ApplyError) -> i32 {
    let source =
        std::error::Error::source(error).and_then(|source| source.downcast_ref::<rustix::io::Errno>());
    source.map_or(NOT_STARTED, |errno| errno.raw_os_error())
}

pub(crate) fn as_io(error: &ApplyError) -> io::Error {
    io::Error::from_raw_os_error(errno_of(error))
}

fn silent(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

fn outcome(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(0), _) => Outcome::Done,
        (Some(NOT_STARTED), _) => panic!("the child could not enter its namespaces or be confined"),
        (Some(errno), _) => Outcome::Failed(errno),
        (None, Some(signal)) => Outcome::Killed(signal),
        (None, None) => panic!("the child neither exited nor was killed"),
    }
}
