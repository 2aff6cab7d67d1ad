//! One command inside: how its process is made, what it wrote, and how it ended.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, WaitStatus, chdir, kill_process, kill_process_group, setsid};

use crate::confine::Confinement;
use crate::kernel::{self, Cloned};
use crate::log::{Stream, Writer};
use crate::wire::{Ended, EndedBy, Exec, Reason};

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(crate) struct Execution {
    pub(crate) id: String,
    pid: Pid,
    pub(crate) outputs: Vec<(Stream, PipeReader)>,
    log: Writer,
    output_bytes: u64,
    pub(crate) last_output_ms: i64,
    pub(crate) ends_at_ms: Option<i64>,
    pub(crate) inactivity_ms: Option<i64>,
    /// Why it is being ended, if it is.
    ending: Option<EndedBy>,
    exited: Option<WaitStatus>,
}

/// Why no process was made.
pub(crate) struct NotStarted {
    pub(crate) reason: Reason,
    pub(crate) why: String,
}

impl From<io::Error> for NotStarted {
    fn from(error: io::Error) -> Self {
        Self { reason: Reason::Failed, why: error.to_string() }
    }
}

impl Execution {
    pub(crate) fn start(
        exec: &Exec,
        log: File,
        groups: &[OwnedFd],
        confinement: &Confinement,
        now_ms: i64,
    ) -> Result<Self, NotStarted> {
        let plan = Plan::of(exec)?;
        let (stdout_here, stdout_there) = io::pipe()?;
        let (stderr_here, stderr_there) = io::pipe()?;
        let (mut trouble_here, trouble_there) = io::pipe()?;
        let pid = match kernel::clone_into(0, None)? {
            Cloned::Child => {
                let trouble =
                    plan.carry_out([&stdout_there, &stderr_there], groups, confinement, &trouble_there);
                let number = trouble.raw_os_error().unwrap_or(libc::EIO);
                let _ = (&trouble_there).write_all(&number.to_le_bytes());
                kernel::vanish(127)
            }
            Cloned::Parent { pid, .. } => {
                Pid::from_raw(pid).ok_or_else(|| refused("it has no process id"))?
            }
        };
        drop((stdout_there, stderr_there, trouble_there));
        // What runs inside may stop a child before it becomes its program: nobody waits for it without end.
        if !is_over_soon(&trouble_here)? {
            let _ = kill_process(pid, Signal::KILL);
            return Err(refused("it did not become its program in time"));
        }
        let mut trouble = Vec::new();
        trouble_here.read_to_end(&mut trouble)?;
        // What runs inside may take back what it wrote: a read must never wait for it.
        for output in [&stdout_here, &stderr_here] {
            read_without_waiting(output)?;
        }
        if let Ok(number) = trouble.try_into() {
            return Err(why_not(&exec.argv, io::Error::from_raw_os_error(i32::from_le_bytes(number))));
        }
        Ok(Self {
            id: exec.execution.clone(),
            pid,
            outputs: vec![(Stream::Stdout, stdout_here), (Stream::Stderr, stderr_here)],
            log: Writer::new(log),
            output_bytes: exec.output_bytes,
            last_output_ms: now_ms,
            ends_at_ms: exec.timeout_ms.map(|ms| now_ms.saturating_add_unsigned(ms)),
            inactivity_ms: exec.inactivity_ms.and_then(|ms| i64::try_from(ms).ok()),
            ending: None,
            exited: None,
        })
    }

    /// Takes what one of its outputs holds. A flood is taken in turns with everything else.
    pub(crate) fn drain(&mut self, index: usize, now_ms: i64, wall_ms: i64) -> io::Result<()> {
        let mut chunk = [0; 64 * 1024];
        let (stream, pipe) = &mut self.outputs[index];
        match pipe.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
            Ok(0) => {
                self.outputs.remove(index);
            }
            Ok(read) => {
                let stream = *stream;
                self.last_output_ms = now_ms;
                self.log.append(stream, wall_ms, &chunk[..read])?;
                if self.log.written >= self.output_bytes {
                    self.end(EndedBy::OutputLimit);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn is_overdue(&self, now_ms: i64) -> Option<EndedBy> {
        let quiet_since = self.last_output_ms;
        if self.ending.is_some() || self.exited.is_some() {
            None
        } else if self.ends_at_ms.is_some_and(|at| at <= now_ms) {
            Some(EndedBy::TimeLimit)
        } else if self.inactivity_ms.is_some_and(|ms| quiet_since.saturating_add(ms) <= now_ms) {
            Some(EndedBy::Inactivity)
        } else {
            None
        }
    }

    /// When time alone ends it, at the earliest.
    pub(crate) fn next_deadline(&self) -> Option<i64> {
        if self.ending.is_some() || self.exited.is_some() {
            return None;
        }
        let quiet = self.inactivity_ms.map(|ms| self.last_output_ms.saturating_add(ms));
        self.ends_at_ms.into_iter().chain(quiet).min()
    }

    /// The first reason is the reason.
    pub(crate) fn end(&mut self, by: EndedBy) {
        if self.exited.is_none() {
            self.ending.get_or_insert(by);
        }
        match kill_process_group(self.pid, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            // A process of its own group cannot be out of process 1's reach.
            Err(_) => {}
        }
    }

    pub(crate) fn terminate(&self) {
        let _ = kill_process_group(self.pid, Signal::TERM);
    }

    /// The process with this id has ended; says whether it was this one.
    pub(crate) fn reaped(&mut self, pid: Pid, status: WaitStatus) -> bool {
        let own = pid == self.pid;
        if own {
            self.exited = Some(status);
            // What it left running in its group goes with it.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        own
    }

    /// Ended for good: the process is gone, and all it wrote is in the log.
    pub(crate) fn ended(&self) -> Option<Ended> {
        let status = self.exited.filter(|_| self.outputs.is_empty() || self.ending.is_some())?;
        let by = self.ending.unwrap_or(EndedBy::Itself);
        Some(Ended { by, code: status.exit_status(), signal: status.terminating_signal() })
    }
}

/// All that a child needs, made before it is: between fork and exec as little as possible happens.
struct Plan {
    programs: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    workdir: CString,
}

impl Plan {
    fn of(exec: &Exec) -> Result<Self, NotStarted> {
        let text = |text: &str| CString::new(text).map_err(|_| refused("an argument holds a NUL"));
        let program = exec.argv.first().ok_or_else(|| refused("there is no command"))?;
        let path = exec.env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        let programs = if program.contains('/') {
            vec![text(program)?]
        } else {
            let found = path.split(':').map(|directory| text(&format!("{directory}/{program}")));
            found.collect::<Result<_, _>>()?
        };
        let env = exec.env.iter().map(|(name, value)| text(&format!("{name}={value}")));
        Ok(Self {
            programs,
            argv: exec.argv.iter().map(|argument| text(argument)).collect::<Result<_, _>>()?,
            env: env.collect::<Result<_, _>>()?,
            workdir: text(&exec.workdir)?,
        })
    }

    /// Runs in the child. Comes back only with the reason why not.
    fn carry_out(
        &self,
        outputs: [&PipeWriter; 2],
        groups: &[OwnedFd],
        confinement: &Confinement,
        trouble: &PipeWriter,
    ) -> io::Error {
        match self.get_ready(outputs, groups, confinement, trouble) {
            Ok(()) => self.become_one_of_the_programs(),
            Err(error) => error,
        }
    }

    fn get_ready(
        &self,
        [stdout, stderr]: [&PipeWriter; 2],
        groups: &[OwnedFd],
        confinement: &Confinement,
        trouble: &PipeWriter,
    ) -> io::Result<()> {
        for group in groups {
            rustix::io::write(group, b"0")?;
        }
        setsid()?;
        let nothing = File::open("/dev/null")?;
        kernel::duplicate_as(&nothing, 0)?;
        drop(nothing);
        kernel::duplicate_as(stdout, 1)?;
        kernel::duplicate_as(stderr, 2)?;
        // Paths may lead through `/proc/self/fd`: nothing of the keeper's may be left there when one is followed.
        kernel::close_all_but(trouble)?;
        #[cfg(feature = "weakened")]
        crate::weakness::leak()?;
        chdir(&self.workdir)?;
        kernel::reset_signals();
        confinement.apply().map_err(io::Error::other)
    }

    fn become_one_of_the_programs(&self) -> io::Error {
        let mut worst = io::Error::from_raw_os_error(libc::ENOENT);
        for program in &self.programs {
            let error = kernel::become_program(program, &self.argv, &self.env);
            match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                Some(libc::EACCES) => worst = error,
                _ => return error,
            }
        }
        worst
    }
}

/// How long a child may take to become its program.
const BECOMING: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// The other end of this pipe closes when the child has become its program, or has said why not.
fn is_over_soon(trouble: &PipeReader) -> io::Result<bool> {
    #[cfg(feature = "weakened")]
    if crate::weakness::has(&crate::weakness::Weakness::ChildrenWaitedForWithoutEnd) {
        return Ok(true);
    }
    loop {
        match poll(&mut [PollFd::new(trouble, PollFlags::IN)], Some(&BECOMING)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn read_without_waiting(output: &PipeReader) -> io::Result<()> {
    #[cfg(feature = "weakened")]
    if crate::weakness::has(&crate::weakness::Weakness::OutputReadBlindly) {
        return Ok(());
    }
    Ok(ioctl_fionbio(output, true)?)
}

fn refused(why: &str) -> NotStarted {
    NotStarted { reason: Reason::Failed, why: why.to_owned() }
}

fn why_not(argv: &[String], error: io::Error) -> NotStarted {
    let program = argv.first().map_or("", String::as_str);
    let name = Path::new(program).display();
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => {
            NotStarted { reason: Reason::NotFound, why: format!("`{name}` was not found") }
        }
        Some(libc::EACCES | libc::ENOEXEC | libc::EISDIR) => {
            NotStarted { reason: Reason::NotExecutable, why: format!("`{name}` cannot be executed: {error}") }
        }
        _ => NotStarted { reason: Reason::Failed, why: format!("`{name}` could not be started: {error}") },
    }
}
