//! Resource limits (rlimits) of the workload for resources that no cgroup counts.
//! Processes, memory and disk are limited by cgroups and storage, not here. The stack is not limited.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Each value is both the soft and the hard limit. A lower limit inherited from outside stays.
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
    /// File locks of one process. Kernels from 2.4.25 on accept this limit and do not enforce it.
    pub file_locks: u64,
}

impl Limits {
    /// With fewer, a dynamically linked program cannot start.
    pub const FEWEST_OPEN_FILES: u64 = 16;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            open_files: 16_384,
            locked_bytes: 8 << 20,
            message_queue_bytes: 819_200,
            queued_signals: 4_096,
            file_locks: 4_096,
        }
    }
}

/// Lowers the limits of the workload. Core files are off: they would hold secrets and fill the disk.
/// Nice and real-time priority limits of 0 keep it from raising its priority above the keeper's.
pub(super) fn lower_all(limits: &Limits) -> Result<(), (Resource, Errno)> {
    #[cfg(feature = "weakened")]
    if crate::weakened::disabled().host_limits {
        return Ok(());
    }
    let wanted = [
        (Resource::Nofile, limits.open_files),
        (Resource::Memlock, limits.locked_bytes),
        (Resource::Msgqueue, limits.message_queue_bytes),
        (Resource::Sigpending, limits.queued_signals),
        (Resource::Locks, limits.file_locks),
        (Resource::Core, 0),
        (Resource::Nice, 0),
        (Resource::Rtprio, 0),
    ];
    wanted.into_iter().try_for_each(|(resource, most)| lower_limit(resource, most))
}

/// Turns core files off for the keeper, whose memory holds secrets.
pub(super) fn no_core_files() -> Result<(), (Resource, Errno)> {
    #[cfg(feature = "weakened")]
    if crate::weakened::disabled().host_limits {
        return Ok(());
    }
    lower_limit(Resource::Core, 0)
}

/// Name of a resource limit in error messages.
pub(crate) fn name(resource: Resource) -> &'static str {
    match resource {
        Resource::Nofile => "RLIMIT_NOFILE",
        Resource::Memlock => "RLIMIT_MEMLOCK",
        Resource::Msgqueue => "RLIMIT_MSGQUEUE",
        Resource::Sigpending => "RLIMIT_SIGPENDING",
        Resource::Locks => "RLIMIT_LOCKS",
        Resource::Core => "RLIMIT_CORE",
        Resource::Nice => "RLIMIT_NICE",
        Resource::Rtprio => "RLIMIT_RTPRIO",
        Resource::Cpu => "RLIMIT_CPU",
        Resource::As => "RLIMIT_AS",
        Resource::Fsize => "RLIMIT_FSIZE",
        Resource::Nproc => "RLIMIT_NPROC",
        _ => "of another resource",
    }
}

/// Lowers one limit. Never raises it: that needs a capability that no process in a sandbox has.
fn lower_limit(resource: Resource, most: u64) -> Result<(), (Resource, Errno)> {
    // Read the current hard limit (getrlimit).
    let most = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    // Lower both limits (setrlimit).
    setrlimit(resource, limit).map_err(|errno| (resource, errno))
}
