//! How a process becomes a program inside: everything is made ready before it is forked, and as little as possible
//! happens between fork and exec.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, chdir, ioctl_tiocsctty, kill_process, waitid};

use crate::confine::Confinement;
use crate::console::There;
use crate::kernel::{self, Cloned};
use crate::nursery::{receive, send_with};
use crate::precedence;
use crate::tree::{Mark, own_view};
use crate::wire::Reason;

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const LONGEST_SAID: usize = 64;
/// How long a child may take to become its program: the keeper waits for it. One that something inside has stopped is
/// given up at the first look; a host that is busy takes longer.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const LOOKS: u32 = 5;

/// Where executions run.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The v2 group of all work.
    pub(crate) work: Option<&'a OwnedFd>,
    /// The groups that are joined by writing.
    pub(crate) joined: &'a [OwnedFd],
    pub(crate) confinement: &'a Confinement,
}

/// Why no process was made.
pub(crate) struct NotStarted {
    pub(crate) reason: Reason,
    pub(crate) why: String,
    /// The fork itself found no room, in its group or on the host.
    pub(crate) is_full: bool,
}

impl From<io::Error> for NotStarted {
    fn from(error: io::Error) -> Self {
        refused(&error.to_string())
    }
}

impl NotStarted {
    fn of_fork(error: io::Error) -> Self {
        Self { is_full: error.raw_os_error() == Some(libc::EAGAIN), ..error.into() }
    }
}

/// All that a child needs.
pub(crate) struct Plan {
    programs: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    workdir: CString,
}

/// A process that has become its program, and its mark where one was asked for.
pub(crate) struct Launched {
    pub(crate) pid: Pid,
    pub(crate) mark: Option<Mark>,
}

/// What a child says before it becomes its program.
#[derive(Default)]
struct Said {
    view: Option<OwnedFd>,
    trouble: Option<(Step, i32)>,
}

/// How far a child came before its trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    GettingReady = 2,
    Entering = 3,
    Becoming = 4,
}

/// Said with a child's view of control groups.
const VIEW: u8 = 1;

impl Plan {
    pub(crate) fn of(
        argv: &[String],
        env: &BTreeMap<String, String>,
        workdir: &str,
    ) -> Result<Self, NotStarted> {
        let text = |text: &str| CString::new(text).map_err(|_| refused("an argument holds a NUL"));
        let program = argv.first().ok_or_else(|| refused("there is no command"))?;
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

    /// `group`: the v2 group to be born into. Without one the child's mark is asked for.
    pub(crate) fn launch(
        &self,
        place: Place<'_>,
        group: Option<RawFd>,
        console: There,
    ) -> Result<Launched, NotStarted> {
        let (said_here, said_there) = UnixStream::pair()?;
        let pid = match kernel::clone_into(0, group).map_err(NotStarted::of_fork)? {
            Cloned::Child => {
                let (step, trouble) = self.carry_out(place, group.is_none(), &console, &said_there);
                let number = trouble.raw_os_error().unwrap_or(libc::EIO);
                let _ = (&said_there).write_all(&[&[step as u8][..], &number.to_le_bytes()].concat());
                kernel::vanish(127)
            }
            Cloned::Parent { pid, .. } => {
                Pid::from_raw(pid).ok_or_else(|| refused("it has no process id"))?
            }
        };
        drop((said_there, console));
        let said = hear(&said_here, || is_stopped(pid)).inspect_err(|_| {
            // Whatever holds it up: it is not to begin later.
            let _ = kill_process(pid, Signal::KILL);
        });
        match said? {
            Said { trouble: Some((step, number)), .. } => {
                Err(self.why_not(step, &io::Error::from_raw_os_error(number)))
            }
            Said { view, trouble: None } => Ok(Launched { pid, mark: view.map(Mark::of).transpose()? }),
        }
    }

    /// Runs in the child. Comes back only with the reason why not.
    fn carry_out(
        &self,
        place: Place<'_>,
        tell_mark: bool,
        console: &There,
        to: &UnixStream,
    ) -> (Step, io::Error) {
        let ready = get_ready(place, tell_mark, console, to);
        // Paths may lead through `/proc/self/fd`: nothing of the keeper's may be left there when one is followed.
        if let Err(error) = ready.and_then(|()| kernel::close_all_but(to)) {
            return (Step::GettingReady, error);
        }
        #[cfg(feature = "weakened")]
        if let Err(error) = crate::weakness::leak() {
            return (Step::GettingReady, error);
        }
        if let Err(error) = chdir(&self.workdir) {
            return (Step::Entering, error.into());
        }
        match place.confinement.apply() {
            Ok(()) => (Step::Becoming, self.become_one_of_the_programs()),
            Err(error) => (Step::GettingReady, io::Error::other(error)),
        }
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

    fn why_not(&self, step: Step, error: &io::Error) -> NotStarted {
        let text =
            |text: Option<&CString>| text.map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let name = text(self.argv.first());
        let (reason, why) = match (step, error.raw_os_error()) {
            (Step::Entering, _) => {
                let workdir = text(Some(&self.workdir));
                (Reason::Failed, format!("the working directory `{workdir}` cannot be entered: {error}"))
            }
            (Step::Becoming, Some(libc::ENOENT | libc::ENOTDIR)) => {
                (Reason::NotFound, format!("`{name}` was not found"))
            }
            (Step::Becoming, Some(libc::EACCES | libc::ENOEXEC | libc::EISDIR)) => {
                (Reason::NotExecutable, format!("`{name}` cannot be executed: {error}"))
            }
            (Step::Becoming | Step::GettingReady, _) => {
                (Reason::Failed, format!("`{name}` could not be started: {error}"))
            }
        };
        NotStarted { reason, why, is_full: false }
    }
}

/// In the child: its groups, its mark, its console.
fn get_ready(place: Place<'_>, tell_mark: bool, console: &There, to: &UnixStream) -> io::Result<()> {
    for group in place.joined {
        rustix::io::write(group, b"0")?;
    }
    kernel::leave_groups_behind()?;
    if tell_mark {
        send_with(to, &[VIEW], &[&own_view()?])?;
    }
    precedence::give_up()?;
    kernel::duplicate_as(&console.stdin, 0)?;
    kernel::duplicate_as(&console.stdout, 1)?;
    kernel::duplicate_as(&console.stderr, 2)?;
    if console.is_terminal {
        ioctl_tiocsctty(&console.stdin)?;
    }
    kernel::reset_signals();
    Ok(())
}

/// All that a child has to say, until its exec or its end closes the pipe.
fn hear(from: &UnixStream, is_stopped: impl Fn() -> bool) -> Result<Said, NotStarted> {
    let (mut said, mut views) = (Vec::new(), Vec::new());
    #[cfg(feature = "weakened")]
    if crate::weakness::has(&crate::weakness::Weakness::ChildrenWaitedForWithoutEnd) {
        while let Some((more, descriptors)) = receive(from, LONGEST_SAID)? {
            said.extend(more);
            views.extend(descriptors);
        }
        return Ok(Said { view: views.pop(), trouble: trouble_in(&said) });
    }
    let mut looks = 0;
    loop {
        let mut descriptors = [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)];
        match poll(&mut descriptors, Some(&LOOK_EVERY)) {
            Ok(0) => {
                looks += 1;
                if looks == LOOKS || is_stopped() {
                    return Err(refused("it was held up before it began"));
                }
                continue;
            }
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(io::Error::from(error).into()),
        }
        match receive(from, LONGEST_SAID)? {
            None => return Ok(Said { view: views.pop(), trouble: trouble_in(&said) }),
            Some((more, descriptors)) => {
                said.extend(more);
                views.extend(descriptors);
            }
        }
    }
}

fn is_stopped(child: Pid) -> bool {
    let how = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(child), how).is_ok_and(|seen| seen.is_some())
}

/// Its view comes first, if it is told at all.
fn trouble_in(said: &[u8]) -> Option<(Step, i32)> {
    let said = said.strip_prefix(&[VIEW]).unwrap_or(said);
    let (step, rest) = said.split_first()?;
    let steps = [Step::GettingReady, Step::Entering, Step::Becoming];
    let step = steps.into_iter().find(|known| *known as u8 == *step)?;
    Some((step, i32::from_le_bytes(*rest.first_chunk()?)))
}

pub(crate) fn refused(why: &str) -> NotStarted {
    NotStarted { reason: Reason::Failed, why: why.to_owned(), is_full: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child that becomes its program after this.
    fn slow_child() -> (UnixStream, std::thread::JoinHandle<()>) {
        let (here, there) = UnixStream::pair().unwrap();
        let becoming = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(1_200));
            drop(there);
        });
        (here, becoming)
    }

    #[test]
    fn a_child_that_is_slow_is_waited_for_and_one_that_is_stopped_is_given_up() {
        let (here, becoming) = slow_child();
        let slow = hear(&here, || false);
        becoming.join().unwrap();
        let (here, becoming) = slow_child();
        let stopped = hear(&here, || true);
        becoming.join().unwrap();

        assert!(slow.is_ok());
        assert_eq!(stopped.err().map(|it| it.why), Some("it was held up before it began".to_owned()));
    }

    #[test]
    fn only_a_fork_that_found_no_room_is_for_want_of_room() {
        let of = |number| NotStarted::of_fork(io::Error::from_raw_os_error(number)).is_full;

        assert_eq!([libc::EAGAIN, libc::ENOMEM, libc::EPERM].map(of), [true, false, false]);
        assert!(!NotStarted::from(io::Error::from_raw_os_error(libc::EAGAIN)).is_full);
    }

    #[test]
    fn trouble_is_heard_with_a_view_before_it_and_without() {
        let trouble = [&[Step::Entering as u8][..], &2i32.to_le_bytes()].concat();

        assert_eq!(trouble_in(&[]), None);
        assert_eq!(trouble_in(&[VIEW]), None);
        assert_eq!(trouble_in(&trouble), Some((Step::Entering, 2)));
        assert_eq!(trouble_in(&[vec![VIEW], trouble].concat()), Some((Step::Entering, 2)));
    }
}
