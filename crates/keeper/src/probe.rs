//! The readiness probe, which exercises the sandbox end to end: checks its mounts and directories, writes and reads a
//! file, and starts a confined program the way executions are started.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use pinfold_confine::syscalls::{Cloned, clone_process, exit_now};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, openat, openat2, statx, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitStatus, kill_process};
use rustix::time::{ClockId, clock_gettime};

use crate::console::{ConsoleDevices, ExecutionEnds};
use crate::launch::{LaunchContext, LaunchError, LaunchPlan, Launched};
use crate::process_tree::{ExecutionCgroup, ProcessTree};
use pinfold_keeper_wire::ProbeFailure;

/// Present in every image, and does nothing.
const PROGRAM: &str = "true";
const WORKSPACE: &str = "/workspace";
/// Paths that must be mount points, and directories that must exist.
const MOUNTS: [&str; 5] = ["/proc", "/sys", "/dev", "/dev/pts", "/dev/shm"];
const DIRECTORIES: [&str; 2] = ["/tmp", WORKSPACE];

/// A probe whose program has not ended yet.
pub(crate) struct PendingProbe {
    pub(crate) pid: Pid,
    pub(crate) nonce: String,
    pub(crate) ends_at_ms: i64,
    /// The process tree of its program.
    pub(crate) tree: Option<ProcessTree>,
}

/// The checks that need no process.
pub(crate) fn check_files(shared: &[PathBuf]) -> Result<(), ProbeFailure> {
    let directories = || -> Result<(), String> {
        for path in DIRECTORIES.map(Path::new) {
            check_path(path, false).map_err(|why| with_path(path, &why))?;
        }
        round_trip().map_err(|why| with_path(Path::new(WORKSPACE), &why))
    };
    check_mounts(shared).and_then(|()| directories()).map_err(ProbeFailure::Files)
}

/// Checks the mounts, which no process inside can remove. Takes some microseconds. The error names the first one missing.
pub(crate) fn check_mounts(shared: &[PathBuf]) -> Result<(), String> {
    let mut check_mounts = MOUNTS.iter().map(Path::new).chain(shared.iter().map(PathBuf::as_path));
    check_mounts.try_for_each(|path| check_path(path, true).map_err(|why| with_path(path, &why)))
}

fn with_path(path: &Path, why: &io::Error) -> String {
    format!("`{}`: {why}", path.display())
}

fn check_path(path: &Path, must_be_mount: bool) -> io::Result<()> {
    // Ask for the type and whether it is a mount point (statx).
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE)?;
    if must_be_mount && !found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Err(io::Error::other("nothing is mounted there"));
    }
    Ok(())
}

/// Writes and reads a file in the workspace. The name must be new and is not followed if it is a link: code inside may
/// have prepared a trap. A full disk passes: the disk limit only makes calls inside fail, and a failed probe would end
/// the sandbox.
fn round_trip() -> io::Result<()> {
    #[cfg(feature = "weakened")]
    if crate::disabled_guards::is_disabled(&pinfold_keeper_wire::DisabledGuard::ProbeFollowsLinks) {
        return std::fs::write(format!("{WORKSPACE}/.pinfold-probe"), b"pinfold");
    }
    // Refuse magic links such as `/proc/self/fd`, which lead to this process's descriptors.
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // Open the workspace within the root (openat2 RESOLVE_IN_ROOT).
    let workspace = openat2(CWD, WORKSPACE, flags, Mode::empty(), resolve)?;
    let now = clock_gettime(ClockId::Boottime);
    let name = format!(".pinfold-probe-{}-{}", now.tv_sec, now.tv_nsec);
    let careful = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | careful;
    let mut file = match openat(&workspace, &name, new, Mode::RUSR | Mode::WUSR) {
        Err(Errno::NOSPC | Errno::DQUOT) => return Ok(()),
        file => File::from(file?),
    };
    let mut round_trip = || -> io::Result<()> {
        file.write_all(b"pinfold")?;
        let mut read = Vec::new();
        let again = File::from(openat(&workspace, &name, OFlags::RDONLY | careful, Mode::empty())?);
        again.take(16).read_to_end(&mut read)?;
        if read == b"pinfold" { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    };
    let tried = round_trip();
    // Also after a failed write: otherwise each probe would leave a file.
    // Delete the file (unlinkat).
    unlinkat(&workspace, &name, AtFlags::empty())?;
    match tried {
        Err(why) if matches!(Errno::from_io_error(&why), Some(Errno::NOSPC | Errno::DQUOT)) => Ok(()),
        tried => tried,
    }
}

/// Starts the program in its own process tree, which is returned in every case: code inside may have replaced the
/// program, and its remaining processes belong to no execution.
/// If the process limit of the executions is reached, a substitute child runs instead: the limit only makes forks inside
/// fail, and a failed probe would end the sandbox.
pub(crate) fn start_program(
    context: LaunchContext<'_>,
    number: u64,
    devices: &ConsoleDevices,
) -> (Result<Pid, ProbeFailure>, Option<ProcessTree>) {
    // No execution id starts with `probe_`.
    let name = format!("probe_{number}");
    let group = match context.workload.map(|workload| ExecutionCgroup::make(workload, &name)).transpose() {
        Ok(group) => group,
        Err(error) => return (Err(ProbeFailure::Exec(error.to_string())), None),
    };
    let start = || -> Result<Launched, LaunchError> {
        let plan = LaunchPlan::of(&[PROGRAM.to_owned()], &BTreeMap::new(), "/")?;
        let null = || devices.null().try_clone();
        let console = ExecutionEnds { stdin: null()?, stdout: null()?, stderr: null()?, is_terminal: false };
        plan.launch(context, group.as_ref().map(ExecutionCgroup::descriptor), console)
    };
    let (pid, namespace) = match start() {
        Ok(Launched { pid, namespace }) => (Ok(pid), namespace),
        Err(LaunchError { process_limit_reached: true, .. }) => (start_substitute(), None),
        Err(LaunchError { why, .. }) => (Err(why), None),
    };
    (
        pid.map_err(ProbeFailure::Exec),
        group.map(ProcessTree::Cgroup).or(namespace.map(ProcessTree::Namespace)),
    )
}

/// Starts a child that exits at once, outside the executions' cgroup. It runs no code from inside, since no limit would
/// apply to it. Fails if the host, not the sandbox, is out of processes.
fn start_substitute() -> Result<Pid, String> {
    match clone_process(0, None) {
        Ok(Cloned::Child) => exit_now(0),
        Ok(Cloned::Parent { pid, .. }) => {
            Pid::from_raw(pid).ok_or_else(|| "the kernel returned no process id".to_owned())
        }
        Err(why) => Err(why.to_string()),
    }
}

impl PendingProbe {
    pub(crate) fn failure(status: WaitStatus) -> Option<ProbeFailure> {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(0), _) => None,
            (Some(code), _) => Some(ProbeFailure::Exec(format!("`{PROGRAM}` exited with {code}"))),
            (None, signal) => {
                let signal = signal.unwrap_or_default();
                Some(ProbeFailure::Exec(format!("`{PROGRAM}` was killed by signal {signal}")))
            }
        }
    }

    /// Kills the program. It is not reaped yet, so the pid still belongs to it.
    pub(crate) fn kill(&self) -> ProbeFailure {
        let _ = kill_process(self.pid, Signal::KILL);
        ProbeFailure::Exec(format!("`{PROGRAM}` did not end in time"))
    }
}
