//! Whether work can be done here, really tried: the places that the world is made of, a round trip through a file, and
//! a program that is forked, confined, executed and waited for where executions run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, openat, openat2, statx, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitStatus, kill_process};
use rustix::time::{ClockId, clock_gettime};

use crate::console::{Devices, There};
use crate::kernel::{self, Cloned};
use crate::plan::{NotStarted, Place, Plan};
use crate::wire::ProbeFailed;

/// Every image has it, and it does nothing.
const PROGRAM: &str = "true";
const WORKSPACE: &str = "/workspace";
/// Places that must be mounts of our own, and others that must be there.
const MOUNTS: [&str; 5] = ["/proc", "/sys", "/dev", "/dev/pts", "/dev/shm"];
const DIRECTORIES: [&str; 2] = ["/tmp", WORKSPACE];

/// A probe whose program has not ended yet.
pub(crate) struct Probing {
    pub(crate) pid: Pid,
    pub(crate) nonce: String,
    pub(crate) ends_at_ms: i64,
}

/// All that needs no process.
pub(crate) fn places_and_files(shared: &[PathBuf]) -> Result<(), ProbeFailed> {
    let mounts = MOUNTS.iter().map(Path::new).chain(shared.iter().map(PathBuf::as_path));
    for path in mounts {
        look_at(path, true).map_err(|why| named(path, &why))?;
    }
    for path in DIRECTORIES.map(Path::new) {
        look_at(path, false).map_err(|why| named(path, &why))?;
    }
    round_trip().map_err(|why| named(Path::new(WORKSPACE), &why))
}

fn named(path: &Path, why: &io::Error) -> ProbeFailed {
    ProbeFailed::Files(format!("`{}`: {why}", path.display()))
}

fn look_at(path: &Path, must_be_mount: bool) -> io::Result<()> {
    let seen = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE)?;
    if must_be_mount && !seen.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Err(io::Error::other("nothing is mounted there"));
    }
    Ok(())
}

/// Within the root, under a name of its own, which is not followed and must be new: something inside may lie in wait.
/// On a full disk a try is enough. Its limit makes calls fail inside, and a probe that failed with them would end the
/// sandbox for it.
fn round_trip() -> io::Result<()> {
    #[cfg(feature = "weakened")]
    if crate::weakness::has(&crate::weakness::Weakness::ProbeFollowsAnything) {
        return std::fs::write(format!("{WORKSPACE}/.pinfold-probe"), b"pinfold");
    }
    // Links of the kernel's own, such as `/proc/self/fd`, would lead to what this process holds.
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
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
    // Also when nothing could be written: else each probe would leave a file.
    unlinkat(&workspace, &name, AtFlags::empty())?;
    match tried {
        Err(why) if matches!(Errno::from_io_error(&why), Some(Errno::NOSPC | Errno::DQUOT)) => Ok(()),
        tried => tried,
    }
}

/// In the group of all work: it needs none of its own, since it leaves nothing behind.
/// Where that group has reached its limit of processes, a stand-in is waited for instead: the limit makes forks fail
/// inside, and a probe that failed with them would end the sandbox for it.
pub(crate) fn program(place: Place<'_>, devices: &Devices) -> Result<Pid, ProbeFailed> {
    let start = || -> Result<Pid, NotStarted> {
        let plan = Plan::of(&[PROGRAM.to_owned()], &BTreeMap::new(), "/")?;
        let null = || devices.null().try_clone();
        let console = There { stdin: null()?, stdout: null()?, stderr: null()?, is_terminal: false };
        let group = place.work.map(std::os::fd::AsRawFd::as_raw_fd);
        Ok(plan.launch(place, group, console)?.pid)
    };
    match start() {
        Err(NotStarted { is_full: true, .. }) => stand_in(),
        started => started.map_err(|NotStarted { why, .. }| why),
    }
    .map_err(ProbeFailed::Exec)
}

/// A child of the keeper's own that ends at once, outside the group of all work. Nothing from inside runs in it, since
/// no limit would hold for that. It fails where not the sandbox is full but its host.
fn stand_in() -> Result<Pid, String> {
    match kernel::clone_into(0, None) {
        Ok(Cloned::Child) => kernel::vanish(0),
        Ok(Cloned::Parent { pid, .. }) => Pid::from_raw(pid).ok_or_else(|| "it has no process id".to_owned()),
        Err(why) => Err(why.to_string()),
    }
}

impl Probing {
    pub(crate) fn ended(status: WaitStatus) -> Option<ProbeFailed> {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(0), _) => None,
            (Some(code), _) => Some(ProbeFailed::Exec(format!("`{PROGRAM}` exited with {code}"))),
            (None, signal) => {
                let signal = signal.unwrap_or_default();
                Some(ProbeFailed::Exec(format!("`{PROGRAM}` was killed by signal {signal}")))
            }
        }
    }

    /// It is our child and not waited for yet, so its number is its own.
    pub(crate) fn give_up(&self) -> ProbeFailed {
        let _ = kill_process(self.pid, Signal::KILL);
        ProbeFailed::Exec(format!("`{PROGRAM}` did not end in time"))
    }
}
