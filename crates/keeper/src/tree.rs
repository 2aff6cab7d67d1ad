//! All processes of one execution, whatever became of their parents, sessions and names: counted and ended as a whole.
//! In a v2 group of their own; where there is none, by the view of control groups that each execution is given and
//! that nothing inside can change.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::marked;

pub(crate) enum Tree {
    Grouped(Grouped),
    Marked(Mark),
}

/// A view of control groups. It is held, so that the kernel gives its number to no other execution.
pub(crate) struct Mark {
    number: u64,
    _view: OwnedFd,
}

/// A group in the group of all work. Dropping it leaves it there: it goes when it is empty.
pub(crate) struct Grouped {
    work: OwnedFd,
    name: String,
    directory: OwnedFd,
}

impl Grouped {
    /// One that a crash left there is as good: nothing is in it.
    pub(crate) fn make(work: &OwnedFd, name: &str) -> io::Result<Self> {
        match mkdirat(work, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(work, name, flags, Mode::empty())?;
        Ok(Self { work: work.try_clone()?, name: name.to_owned(), directory })
    }

    /// For a clone into it.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.directory.as_raw_fd()
    }

    fn open(&self, file: &str, flags: OFlags) -> io::Result<File> {
        Ok(openat(&self.directory, file, flags | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    /// Also what is being forked at this very moment.
    fn kill(&self) -> io::Result<()> {
        let file = self.open("cgroup.kill", OFlags::WRONLY)?;
        rustix::io::write(&file, b"1")?;
        Ok(())
    }

    fn is_empty(&self) -> bool {
        let events = self.open("cgroup.events", OFlags::RDONLY).and_then(|file| read_small(&file));
        events.is_ok_and(|events| events.lines().any(|line| line == "populated 0"))
    }

    /// Takes it away if nothing is in it.
    pub(crate) fn remove(&self) -> Result<(), Errno> {
        match unlinkat(&self.work, &self.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn cpu_ms(&self) -> io::Result<u64> {
        let stat = read_small(&self.open("cpu.stat", OFlags::RDONLY)?)?;
        Ok(keyed(&stat, "usage_usec").ok_or(io::ErrorKind::InvalidData)? / 1_000)
    }
}

impl Tree {
    /// `leader`: the first process, as long as it was not waited for.
    pub(crate) fn kill(&self, leader: Option<Pid>) {
        let as_a_whole = matches!(self, Self::Grouped(group) if group.kill().is_ok());
        if let Some(leader) = leader.filter(|_| !as_a_whole) {
            // It and its group may be gone already.
            let _ = kill_process_group(leader, Signal::KILL);
        }
        // Also after the kill of a group: the kernel signals first threads there, which reaches no process without one.
        for process in self.processes() {
            let _ = kill_process(process, Signal::KILL);
        }
    }

    /// Whether nothing of it is left, and then it leaves no trace. What is left is on its way out.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Grouped(group) => {
                let gone = group.remove().is_ok();
                if !gone && !group.is_empty() {
                    self.kill(None);
                }
                gone
            }
            Self::Marked(mark) => marked::end(mark.number),
        }
    }

    /// CPU time of all that is or was in it; without a group, of what is there and what that has waited for.
    pub(crate) fn cpu_ms(&self) -> u64 {
        match self {
            Self::Grouped(group) => group.cpu_ms().unwrap_or(0),
            Self::Marked(_) => self.processes().iter().filter_map(|pid| marked::cpu_ms(*pid)).sum(),
        }
    }

    fn processes(&self) -> Vec<Pid> {
        match self {
            Self::Grouped(group) => {
                let listed = group.open("cgroup.procs", OFlags::RDONLY).and_then(io::read_to_string);
                let listed = listed.unwrap_or_default();
                listed.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
            }
            Self::Marked(mark) => marked::find(mark.number).unwrap_or_default(),
        }
    }
}

/// The kernel's small files are read from their beginning in one call.
pub(crate) fn read_small(file: &File) -> io::Result<String> {
    let mut text = [0; 4096];
    let length = file.read_at(&mut text, 0)?;
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

/// The number behind a key in a file of `key number` lines.
pub(crate) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// How many processors there are to be busy on.
pub(crate) fn processors() -> u64 {
    let count = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count());
    u64::from(count.max(1))
}

/// The calling process's own view of control groups.
pub(crate) fn own_view() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/self/ns/cgroup")?.into())
}

impl Mark {
    pub(crate) fn of(view: OwnedFd) -> io::Result<Self> {
        // The number of a namespace is that of its file.
        Ok(Self { number: fstat(&view)?.st_ino, _view: view })
    }
}
