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
use crate::plan::{Launched, NotStarted, Place, Plan};
use crate::tree::{Grouped, Tree};
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
    /// All that its program may leave behind.
    pub(crate) tree: Option<Tree>,
}

/// All that needs no process.
pub(crate) fn places_and_files(shared: &[PathBuf]) -> Result<(), ProbeFailed> {
    let directories = || -> Result<(), String> {
        for path in DIRECTORIES.map(Path::new) {
            look_at(path, false).map_err(|why| named(path, &why))?;
        }
        round_trip().map_err(|why| named(Path::new(WORKSPACE), &why))
    };
    mounts(shared).and_then(|()| directories()).map_err(ProbeFailed::Files)
}

/// What nothing inside can take away, looked at in some microseconds. The first that is missing is named.
pub(crate) fn mounts(shared: &[PathBuf]) -> Result<(), String> {
    let mut mounts = MOUNTS.iter().map(Path::new).chain(shared.iter().map(PathBuf::as_path));
    mounts.try_for_each(|path| look_at(path, true).map_err(|why| named(path, &why)))
}

fn named(path: &Path, why: &io::Error) -> String {
    format!("`{}`: {why}", path.display())
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

/// In a tree of its own, which comes back however it went: something inside may have put itself into the program, and
/// what that leaves behind belongs to no execution.
/// Where the work has reached its limit of processes, a stand-in is waited for instead: the limit makes forks fail
/// inside, and a probe that failed with them would end the sandbox for it.
pub(crate) fn program(
    place: Place<'_>,
    number: u64,
    devices: &Devices,
) -> (Result<Pid, ProbeFailed>, Option<Tree>) {
    // No execution's id begins so.
    let name = format!("probe_{number}");
    let group = match place.work.map(|work| Grouped::make(work, &name)).transpose() {
        Ok(group) => group,
        Err(error) => return (Err(ProbeFailed::Exec(error.to_string())), None),
    };
    let start = || -> Result<Launched, NotStarted> {
        let plan = Plan::of(&[PROGRAM.to_owned()], &BTreeMap::new(), "/")?;
        let null = || devices.null().try_clone();
        let console = There { stdin: null()?, stdout: null()?, stderr: null()?, is_terminal: false };
        plan.launch(place, group.as_ref().map(Grouped::descriptor), console)
    };
    let (pid, mark) = match start() {
        Ok(Launched { pid, mark }) => (Ok(pid), mark),
        Err(NotStarted { is_full: true, .. }) => (stand_in(), None),
        Err(NotStarted { why, .. }) => (Err(why), None),
    };
    (pid.map_err(ProbeFailed::Exec), group.map(Tree::Grouped).or(mark.map(Tree::Marked)))
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
