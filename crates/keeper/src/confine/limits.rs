//! Per-process limits of the workload that no cgroup counts.
//! Processes, memory and disk have their own guards and are not limited here, nor is the stack.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Each is both the soft and the hard limit. Limits inherited from outside stay where they are lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open files of one process. Beyond it calls fail with EMFILE.
    pub open_files: u64,
    /// Memory that one user may lock. It counts as ordinary memory of the sandbox too.
    pub locked_bytes: u64,
    /// Bytes in POSIX message queues of one user, which live in kernel memory.
    pub message_queue_bytes: u64,
    /// Signals queued to one user, which live in kernel memory.
    pub queued_signals: u64,
}

impl Limits {
    /// Fewer, and a dynamically linked program cannot even start.
    pub const FEWEST_OPEN_FILES: u64 = 16;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            open_files: 16_384,
            locked_bytes: 8 << 20,
            message_queue_bytes: 819_200,
            queued_signals: 4_096,
        }
    }
}

/// Lowers what the workload may have. Core files are off: they would hold secrets and fill the disk.
/// Without nice and real-time priorities it cannot put itself before the keeper.
pub(super) fn lower(limits: &Limits) -> Result<(), (Resource, Errno)> {
    #[cfg(feature = "weakened")]
    if crate::weakness::has(&crate::weakness::Weakness::LimitsOfTheHost) {
        return Ok(());
    }
    let wanted = [
        (Resource::Nofile, limits.open_files),
        (Resource::Memlock, limits.locked_bytes),
        (Resource::Msgqueue, limits.message_queue_bytes),
        (Resource::Sigpending, limits.queued_signals),
        (Resource::Core, 0),
        (Resource::Nice, 0),
        (Resource::Rtprio, 0),
    ];
    wanted.into_iter().try_for_each(|(resource, most)| at_most(resource, most))
}

/// A process that holds secrets of ours leaves none of them in a core file.
pub(super) fn no_core_files() -> Result<(), (Resource, Errno)> {
    #[cfg(feature = "weakened")]
    if crate::weakness::has(&crate::weakness::Weakness::LimitsOfTheHost) {
        return Ok(());
    }
    at_most(Resource::Core, 0)
}

/// Raising a hard limit needs a capability that nobody in a sandbox has, so it is never tried.
fn at_most(resource: Resource, most: u64) -> Result<(), (Resource, Errno)> {
    let most = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(resource, limit).map_err(|errno| (resource, errno))
}
