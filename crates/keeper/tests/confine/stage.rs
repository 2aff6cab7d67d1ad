//! Forks a child into namespaces of its own, as a sandbox has them, and lets it do one thing there.

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Output, Stdio};

use pinfold_keeper::confine::{ApplyError, Confinement, Profile};

use crate::kernel;

/// How one attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Failed(i32),
    Killed(i32),
}

/// No errno is as high: the child could not even begin.
const NOT_STARTED: i32 = 255;

/// What a child does, told as an errno.
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

/// The outer result is the preparation, the inner one the attempt.
pub(crate) fn try_in_namespaces(
    mut act: impl FnMut() -> Result<Result<(), i32>, i32> + Send + Sync + 'static,
) -> Outcome {
    let mut command = Command::new("/nowhere");
    let (uid, gid) = kernel::user_and_group();
    kernel::before_exec(&mut command, move || {
        if kernel::enter_namespaces(uid, gid).is_err() {
            kernel::exit_now(NOT_STARTED);
        }
        match act() {
            Ok(Ok(())) => kernel::exit_now(0),
            Ok(Err(errno)) => kernel::exit_now(errno),
            Err(_) => kernel::exit_now(NOT_STARTED),
        }
    });
    outcome(silent(&mut command).status().unwrap())
}

/// Runs a program to its end, confined before its exec.
pub(crate) fn run_confined(profile: &Profile, command: &mut Command) -> Output {
    let confinement = confined(profile);
    run_after(command, move || confinement.apply().map_err(|error| as_io(&error)))
}

/// Runs a program to its end in namespaces of its own, after `prepare`.
pub(crate) fn run_after(
    command: &mut Command,
    mut prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) -> Output {
    let (uid, gid) = kernel::user_and_group();
    kernel::before_exec(command, move || {
        kernel::enter_namespaces(uid, gid)?;
        kernel::raise_loopback()?;
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

/// Says that a test did not run, where `cargo xtask test` counts it.
pub(crate) fn skip(test: &str, reason: &str) {
    println!("skipped: {test}: {reason}");
    if let Some(path) = std::env::var_os("PINFOLD_SKIPPED_TESTS") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{test}: {reason}").unwrap();
    }
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
