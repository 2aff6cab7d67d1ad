//! All processes of one execution, whatever their parents, sessions and names: counted and killed as a whole.
//! Tracked by a cgroup v2 of their own or, where there is none, by the cgroup namespace that each execution gets and
//! that code inside cannot change.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::cgroup_namespace;

pub(crate) enum ProcessTree {
    Cgroup(ExecutionCgroup),
    Namespace(CgroupNamespace),
}

/// A cgroup namespace. The descriptor is kept open, so that the kernel does not reuse the inode number.
pub(crate) struct CgroupNamespace {
    number: u64,
    _descriptor: OwnedFd,
}

/// A cgroup below that of all executions. Dropping this value does not remove the cgroup.
pub(crate) struct ExecutionCgroup {
    work: OwnedFd,
    name: String,
    directory: OwnedFd,
}

impl ExecutionCgroup {
    /// Creates the cgroup. An existing one is left from a failed start and empty, so it is used.
    pub(crate) fn make(work: &OwnedFd, name: &str) -> io::Result<Self> {
        // Create the cgroup (mkdirat).
        match mkdirat(work, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(work, name, flags, Mode::empty())?;
        Ok(Self { work: work.try_clone()?, name: name.to_owned(), directory })
    }

    /// Its descriptor, for clone3.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.directory.as_raw_fd()
    }

    fn open(&self, file: &str, flags: OFlags) -> io::Result<File> {
        Ok(openat(&self.directory, file, flags | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    /// Kills all processes in it, including those being forked (`cgroup.kill`).
    fn kill(&self) -> io::Result<()> {
        let file = self.open("cgroup.kill", OFlags::WRONLY)?;
        rustix::io::write(&file, b"1")?;
        Ok(())
    }

    fn is_empty(&self) -> bool {
        let events = self.open("cgroup.events", OFlags::RDONLY).and_then(|file| read_small(&file));
        events.is_ok_and(|events| events.lines().any(|line| line == "populated 0"))
    }

    /// Removes the cgroup. Fails if it is not empty.
    pub(crate) fn remove(&self) -> Result<(), Errno> {
        // Remove the cgroup (unlinkat AT_REMOVEDIR).
        match unlinkat(&self.work, &self.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn cpu_ms(&self) -> io::Result<u64> {
        let stat = read_small(&self.open("cpu.stat", OFlags::RDONLY)?)?;
        Ok(value_of(&stat, "usage_usec").ok_or(io::ErrorKind::InvalidData)? / 1_000)
    }
}

impl ProcessTree {
    /// Kills all processes. `leader`: the first process, as long as it is not reaped.
    pub(crate) fn kill(&self, leader: Option<Pid>) {
        let as_a_whole = matches!(self, Self::Cgroup(group) if group.kill().is_ok());
        if let Some(leader) = leader.filter(|_| !as_a_whole) {
            // The leader and its process group may be gone already.
            let _ = kill_process_group(leader, Signal::KILL);
        }
        // Also after cgroup.kill: the kernel signals thread group leaders, which misses processes whose leader exited.
        for process in self.processes() {
            let _ = kill_process(process, Signal::KILL);
        }
    }

    /// Whether no process is left; then the cgroup is removed too. Remaining processes are killed.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Cgroup(group) => {
                let gone = group.remove().is_ok();
                if !gone && !group.is_empty() {
                    self.kill(None);
                }
                gone
            }
            Self::Namespace(namespace) => cgroup_namespace::kill_all(namespace.number),
        }
    }

    /// CPU time of all processes that are or were in it. Without a cgroup: of live processes and their reaped children.
    pub(crate) fn cpu_ms(&self) -> u64 {
        match self {
            Self::Cgroup(group) => group.cpu_ms().unwrap_or(0),
            Self::Namespace(_) => {
                self.processes().iter().filter_map(|pid| cgroup_namespace::cpu_ms(*pid)).sum()
            }
        }
    }

    fn processes(&self) -> Vec<Pid> {
        match self {
            Self::Cgroup(group) => {
                let listed = group.open("cgroup.procs", OFlags::RDONLY).and_then(io::read_to_string);
                let listed = listed.unwrap_or_default();
                listed.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
            }
            Self::Namespace(namespace) => cgroup_namespace::find(namespace.number).unwrap_or_default(),
        }
    }
}

/// Reads a small kernel file from its beginning in one call.
pub(crate) fn read_small(file: &File) -> io::Result<String> {
    let mut text = [0; 4096];
    let length = file.read_at(&mut text, 0)?;
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

/// The value of a key in a file of `key number` lines.
pub(crate) fn value_of(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Number of processors that this process may use.
pub(crate) fn processors() -> u64 {
    let count = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count());
    u64::from(count.max(1))
}

/// Opens the cgroup namespace of this process.
pub(crate) fn open_own_cgroup_namespace() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/self/ns/cgroup")?.into())
}

impl CgroupNamespace {
    pub(crate) fn of(descriptor: OwnedFd) -> io::Result<Self> {
        // A namespace is identified by the inode number of its file.
        Ok(Self { number: fstat(&descriptor)?.st_ino, _descriptor: descriptor })
    }
}
