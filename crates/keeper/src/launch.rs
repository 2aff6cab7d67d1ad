//! Starts a program inside the sandbox. Everything is prepared before the fork, so that little happens between fork and
//! exec. The child reports its cgroup namespace and any error over a socket, which its exec closes.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use pinfold_confine::syscalls::{Cloned, clone_process, exit_now};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, chdir, ioctl_tiocsctty, kill_process, waitid};

use crate::console::ExecutionEnds;
use crate::priority;
use crate::process_tree::{CgroupNamespace, open_own_cgroup_namespace};
use crate::syscalls;
use pinfold_confine::Confinement;
use pinfold_keeper_wire::{RefusalReason, receive_packet, send_with};

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const MAX_REPORT_BYTES: usize = 64;
/// The keeper blocks until the child execs: at most `MAX_CHECKS` times this interval. A child that was stopped from inside
/// fails at the first check; a slow host may take longer.
const CHECK_INTERVAL: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const MAX_CHECKS: u32 = 5;

/// Cgroups and confinement of a launch.
#[derive(Clone, Copy)]
pub(crate) struct LaunchContext<'a> {
    /// The cgroup v2 directory of all executions.
    pub(crate) workload: Option<&'a OwnedFd>,
    /// `cgroup.procs` files of cgroups v1 that the child joins.
    pub(crate) cgroups_to_join: &'a [OwnedFd],
    pub(crate) confinement: &'a Confinement,
}

/// Why a program was not started.
pub(crate) struct LaunchError {
    pub(crate) reason: RefusalReason,
    pub(crate) why: String,
    /// The fork failed with EAGAIN: the process limit of its cgroup or of the host is reached.
    pub(crate) process_limit_reached: bool,
}

impl From<io::Error> for LaunchError {
    fn from(error: io::Error) -> Self {
        launch_failed(&error.to_string())
    }
}

impl LaunchError {
    fn from_fork(error: io::Error) -> Self {
        Self { process_limit_reached: error.raw_os_error() == Some(libc::EAGAIN), ..error.into() }
    }
}

/// Everything a child needs for its exec.
pub(crate) struct LaunchPlan {
    programs: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    workdir: CString,
}

/// A started program, and its cgroup namespace where the keeper tracks it by that.
pub(crate) struct Launched {
    pub(crate) pid: Pid,
    pub(crate) namespace: Option<CgroupNamespace>,
}

/// What a child reports before its exec.
#[derive(Default)]
struct ChildReport {
    namespace: Option<OwnedFd>,
    failure: Option<(Step, i32)>,
}

/// The step at which a child failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Prepare = 2,
    ChangeDirectory = 3,
    Exec = 4,
}

/// Message type that carries the descriptor of a child's cgroup namespace.
const NAMESPACE_MESSAGE: u8 = 1;

impl LaunchPlan {
    pub(crate) fn of(
        argv: &[String],
        env: &BTreeMap<String, String>,
        workdir: &str,
    ) -> Result<Self, LaunchError> {
        let text = |text: &str| {
            CString::new(text).map_err(|_| launch_failed("an argument, variable or path contains a NUL"))
        };
        let program = argv.first().ok_or_else(|| launch_failed("the command is empty"))?;
        let path = env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        let programs = if program.contains('/') {
            vec![text(program)?]
        } else {
            let found = path.split(':').map(|directory| text(&format!("{directory}/{program}")));
            found.collect::<Result<_, _>>()?
        };
        let env = env.iter().map(|(name, value)| text(&format!("{name}={value}")));
        Ok(Self {
            programs,
            argv: argv.iter().map(|argument| text(argument)).collect::<Result<_, _>>()?,
            env: env.collect::<Result<_, _>>()?,
            workdir: text(workdir)?,
        })
    }

    /// Starts the program. `group`: the cgroup v2 to start in. Without one the child reports its cgroup namespace.
    pub(crate) fn launch(
        &self,
        context: LaunchContext<'_>,
        group: Option<RawFd>,
        console: ExecutionEnds,
    ) -> Result<Launched, LaunchError> {
        let (report_reader, report_writer) = UnixStream::pair()?;
        let pid = match clone_process(0, group).map_err(LaunchError::from_fork)? {
            Cloned::Child => {
                let (step, failure) = self.run_child(context, group.is_none(), &console, &report_writer);
                let number = failure.raw_os_error().unwrap_or(libc::EIO);
                let _ = (&report_writer).write_all(&[&[step as u8][..], &number.to_le_bytes()].concat());
                exit_now(127)
            }
            Cloned::Parent { pid, .. } => {
                Pid::from_raw(pid).ok_or_else(|| launch_failed("the kernel returned no process id"))?
            }
        };
        drop((report_writer, console));
        let report = wait_for_exec(&report_reader, || is_stopped(pid)).inspect_err(|_| {
            // Kill the child, so that it does not exec later.
            let _ = kill_process(pid, Signal::KILL);
        });
        match report? {
            ChildReport { failure: Some((step, number)), .. } => {
                Err(self.explain(step, &io::Error::from_raw_os_error(number)))
            }
            ChildReport { namespace, failure: None } => {
                Ok(Launched { pid, namespace: namespace.map(CgroupNamespace::of).transpose()? })
            }
        }
    }

    /// Runs in the child. Returns only on failure.
    fn run_child(
        &self,
        context: LaunchContext<'_>,
        report_namespace: bool,
        console: &ExecutionEnds,
        to: &UnixStream,
    ) -> (Step, io::Error) {
        let ready = prepare_child(context, report_namespace, console, to);
        // Close the keeper's descriptors before any path is resolved: a path may lead through `/proc/self/fd`.
        if let Err(error) = ready.and_then(|()| syscalls::close_all_but(to)) {
            return (Step::Prepare, error);
        }
        #[cfg(feature = "weakened")]
        if let Err(error) = crate::disabled_guards::leak_directory() {
            return (Step::Prepare, error);
        }
        // Enter the working directory (chdir).
        if let Err(error) = chdir(&self.workdir) {
            return (Step::ChangeDirectory, error.into());
        }
        match context.confinement.apply() {
            Ok(()) => (Step::Exec, self.exec_first_found()),
            Err(error) => (Step::Prepare, io::Error::other(error)),
        }
    }

    fn exec_first_found(&self) -> io::Error {
        let mut worst = io::Error::from_raw_os_error(libc::ENOENT);
        for program in &self.programs {
            let error = syscalls::execve(program, &self.argv, &self.env);
            match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                Some(libc::EACCES) => worst = error,
                _ => return error,
            }
        }
        worst
    }

    fn explain(&self, step: Step, error: &io::Error) -> LaunchError {
        let text =
            |text: Option<&CString>| text.map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let name = text(self.argv.first());
        let (reason, why) = match (step, error.raw_os_error()) {
            (Step::ChangeDirectory, _) => {
                let workdir = text(Some(&self.workdir));
                (RefusalReason::Failed, format!("could not enter the working directory `{workdir}`: {error}"))
            }
            (Step::Exec, Some(libc::ENOENT | libc::ENOTDIR)) => {
                (RefusalReason::NotFound, format!("`{name}` was not found"))
            }
            (Step::Exec, Some(libc::EACCES | libc::ENOEXEC | libc::EISDIR)) => {
                (RefusalReason::NotExecutable, format!("`{name}` cannot be executed: {error}"))
            }
            (Step::Exec | Step::Prepare, _) => {
                (RefusalReason::Failed, format!("`{name}` could not be started: {error}"))
            }
        };
        LaunchError { reason, why, process_limit_reached: false }
    }
}

/// In the child: joins cgroups, enters a cgroup namespace and sets up the console.
fn prepare_child(
    context: LaunchContext<'_>,
    report_namespace: bool,
    console: &ExecutionEnds,
    to: &UnixStream,
) -> io::Result<()> {
    for group in context.cgroups_to_join {
        // Writing 0 to cgroup.procs moves the calling process.
        rustix::io::write(group, b"0")?;
    }
    syscalls::unshare_cgroup_namespace()?;
    if report_namespace {
        send_with(to, &[NAMESPACE_MESSAGE], &[&open_own_cgroup_namespace()?])?;
    }
    priority::reset_in_new_session()?;
    syscalls::dup_to(&console.stdin, 0)?;
    syscalls::dup_to(&console.stdout, 1)?;
    syscalls::dup_to(&console.stderr, 2)?;
    if console.is_terminal {
        // Make the terminal the controlling terminal of the new session (ioctl TIOCSCTTY).
        ioctl_tiocsctty(&console.stdin)?;
    }
    syscalls::reset_signals();
    Ok(())
}

/// Waits for the child's report, until its exec or exit closes the socket.
fn wait_for_exec(from: &UnixStream, is_stopped: impl Fn() -> bool) -> Result<ChildReport, LaunchError> {
    let (mut report, mut namespaces) = (Vec::new(), Vec::new());
    #[cfg(feature = "weakened")]
    if crate::disabled_guards::is_disabled(&pinfold_keeper_wire::DisabledGuard::UnlimitedExecWait) {
        while let Some((more, descriptors)) = receive_packet(from, MAX_REPORT_BYTES)? {
            report.extend(more);
            namespaces.extend(descriptors);
        }
        return Ok(ChildReport { namespace: namespaces.pop(), failure: parse_failure(&report) });
    }
    let mut checks = 0;
    loop {
        let mut descriptors = [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)];
        // Wait for the report or the end of the socket (poll).
        match poll(&mut descriptors, Some(&CHECK_INTERVAL)) {
            Ok(0) => {
                checks += 1;
                if checks == MAX_CHECKS || is_stopped() {
                    return Err(launch_failed("the child was stopped or stuck before its exec"));
                }
                continue;
            }
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(io::Error::from(error).into()),
        }
        match receive_packet(from, MAX_REPORT_BYTES)? {
            None => return Ok(ChildReport { namespace: namespaces.pop(), failure: parse_failure(&report) }),
            Some((more, descriptors)) => {
                report.extend(more);
                namespaces.extend(descriptors);
            }
        }
    }
}

fn is_stopped(child: Pid) -> bool {
    let how = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // Ask whether the child is stopped, without reaping it (waitid WNOWAIT).
    waitid(WaitId::Pid(child), how).is_ok_and(|seen| seen.is_some())
}

/// Parses the failed step and errno. The namespace message, if there is one, comes first.
fn parse_failure(report: &[u8]) -> Option<(Step, i32)> {
    let report = report.strip_prefix(&[NAMESPACE_MESSAGE]).unwrap_or(report);
    let (step, rest) = report.split_first()?;
    let steps = [Step::Prepare, Step::ChangeDirectory, Step::Exec];
    let step = steps.into_iter().find(|known| *known as u8 == *step)?;
    Some((step, i32::from_le_bytes(*rest.first_chunk()?)))
}

pub(crate) fn launch_failed(why: &str) -> LaunchError {
    LaunchError { reason: RefusalReason::Failed, why: why.to_owned(), process_limit_reached: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child that execs after 1.2 seconds.
    fn slow_child() -> (UnixStream, std::thread::JoinHandle<()>) {
        let (here, there) = UnixStream::pair().unwrap();
        let exec = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(1_200));
            drop(there);
        });
        (here, exec)
    }

    #[test]
    fn a_slow_child_is_waited_for_and_a_stopped_one_fails() {
        let (here, exec) = slow_child();
        let slow = wait_for_exec(&here, || false);
        exec.join().unwrap();
        let (here, exec) = slow_child();
        let stopped = wait_for_exec(&here, || true);
        exec.join().unwrap();

        assert!(slow.is_ok());
        assert_eq!(
            stopped.err().map(|it| it.why),
            Some("the child was stopped or stuck before its exec".to_owned())
        );
    }

    #[test]
    fn only_a_fork_that_fails_with_eagain_means_the_process_limit() {
        let of = |number| LaunchError::from_fork(io::Error::from_raw_os_error(number)).process_limit_reached;

        assert_eq!([libc::EAGAIN, libc::ENOMEM, libc::EPERM].map(of), [true, false, false]);
        assert!(!LaunchError::from(io::Error::from_raw_os_error(libc::EAGAIN)).process_limit_reached);
    }

    #[test]
    fn a_failure_is_parsed_with_and_without_a_namespace_message() {
        let failure = [&[Step::ChangeDirectory as u8][..], &2i32.to_le_bytes()].concat();

        assert_eq!(parse_failure(&[]), None);
        assert_eq!(parse_failure(&[NAMESPACE_MESSAGE]), None);
        assert_eq!(parse_failure(&failure), Some((Step::ChangeDirectory, 2)));
        assert_eq!(
            parse_failure(&[vec![NAMESPACE_MESSAGE], failure].concat()),
            Some((Step::ChangeDirectory, 2))
        );
    }
}
