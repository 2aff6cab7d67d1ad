//! The end of a body as far as it is work on files, groups and processes: all that may wait for the kernel, in one
//! piece that needs nobody's answer.

mod descendants;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::cgroup::{BodyCgroup, CgroupUsage, Cgroups};
use crate::disk::{let_go_of, remove_tree};
use crate::group_note;
use crate::hold::{Keeper, keeper, seal};
use crate::id_ranges::IdRanges;
use crate::patience::Patience;
use crate::places::Places;

/// How long a killed process may take to be gone before this attempt gives up.
const DEATH: Duration = Duration::from_secs(20);
/// How long a killed keeper is waited for before it is looked for again. It tells of its end at once.
const ONE_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// One body to be ended.
#[derive(Clone)]
pub(crate) struct Ending {
    pub(crate) places: Places,
    pub(crate) cgroups: Cgroups,
    pub(crate) ids: IdRanges,
}

/// A body that is gone.
pub(crate) struct Ended {
    /// All that it has used: nothing of it ran any more when that was read.
    pub(crate) counted: CgroupUsage,
    /// Of the disk.
    pub(crate) freed_bytes: u64,
    /// Its groups as they were, to be looked for.
    pub(crate) groups: BodyCgroup,
}

impl Ending {
    /// Kills whatever lives in it, and waits a little for its keeper, the last to go.
    pub(crate) fn kill(&self) -> io::Result<()> {
        let groups = group_note::groups_of(&self.cgroups, &self.places)?;
        groups.kill_all().map_err(io::Error::other)?;
        match kill_keeper(&self.places)? {
            Killed::Keeper(_, handle) => has_ended(&handle).map(drop),
            Killed::Nobody | Killed::NotYet => Ok(()),
        }
    }

    pub(crate) fn end(&self) -> io::Result<Ended> {
        let places = &self.places;
        self.end_processes()?;
        let _nobody_is_born = seal(places)?;
        // Read again: until the seal somebody could make more of them.
        let groups = group_note::groups_of(&self.cgroups, places)?;
        let counted = groups.usage();
        let freed_bytes = remove_body(&places.body)?;
        self.ids.free(places)?;
        groups.remove(DEATH).map_err(io::Error::other)?;
        // The mark goes last, so that what a crash leaves can still be found.
        remove_tree(&places.control)?;
        self.cgroups.remove_foreign_bases_of(&groups).map_err(io::Error::other)?;
        Ok(Ended { counted, freed_bytes, groups })
    }

    /// Ends what is left of a launch, so that another can take its place.
    pub(crate) fn make_room(&self) -> io::Result<()> {
        self.end_processes()?;
        // Linux since 6.14 kills at birth what is cloned into a group that was ever killed as a whole.
        let groups = group_note::groups_of(&self.cgroups, &self.places)?;
        groups.remove(DEATH).map_err(io::Error::other)
    }

    /// The groups hold everything that was ever born here; without groups the keeper's end is everybody's.
    fn end_processes(&self) -> io::Result<()> {
        let groups = group_note::groups_of(&self.cgroups, &self.places)?;
        // The last one to go, and the only one that tells of it at once.
        if groups.lives().map_err(io::Error::other)? {
            groups.kill_all().map_err(io::Error::other)?;
        }
        end_keeper(&self.places, &groups)?;
        groups.end_all(DEATH).map_err(io::Error::other)
    }
}

fn end_keeper(places: &Places, groups: &BodyCgroup) -> io::Result<()> {
    let mut patience = Patience::of(DEATH);
    loop {
        // Again each time: one that is just being born has no number yet.
        match kill_keeper(places)? {
            Killed::Nobody => return Ok(()),
            Killed::Keeper(pid, handle) => {
                // It may be stuck in the kernel for as long as somebody inside holds what it waits for.
                if !has_ended(&handle)? && !groups.tracks() {
                    descendants::kill(pid, &handle)?;
                }
            }
            Killed::NotYet => {}
        }
        // What names it stays until it is gone: without that nobody could find it any more.
        if patience.pause().is_err() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "its keeper outlives the kill"));
        }
    }
}

enum Killed {
    Nobody,
    Keeper(Pid, OwnedFd),
    /// There is somebody, or somebody else by now: to be looked at again.
    NotYet,
}

/// By a handle that is checked after it is taken: never by a number alone.
fn kill_keeper(places: &Places) -> io::Result<Killed> {
    let found = keeper(places)?;
    let number = match found {
        Keeper::Nobody => return Ok(Killed::Nobody),
        Keeper::Unborn => return Ok(Killed::NotYet),
        Keeper::Alive(number, _) => number,
    };
    let Some(pid) = Pid::from_raw(number) else { return Ok(Killed::NotYet) };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(Killed::Nobody),
        Err(error) => return Err(error.into()),
    };
    if keeper(places)? != found {
        return Ok(Killed::NotYet);
    }
    match pidfd_send_signal(&handle, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(Killed::Keeper(pid, handle)),
        Err(error) => Err(error.into()),
    }
}

/// Waits a little for it.
fn has_ended(process: &OwnedFd) -> io::Result<bool> {
    match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&ONE_WAIT)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The file behind a device first: what was never written to it need not be any more. A device is behind a file in a
/// directory of the body; where an earlier try took that away, the last look finds what it left.
fn remove_body(body: &Path) -> io::Result<u64> {
    match fs::symlink_metadata(body) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        _ => {}
    }
    let freed = remove_tree(body)?;
    wait_for_devices(body)?;
    Ok(freed)
}

/// Waits until no device has a file of the body behind it.
pub(crate) fn wait_for_devices(body: &Path) -> io::Result<()> {
    let_go_of(body, DEATH)
}
