//! The guards that the attack suite can disable. Compiled only with the feature `weakened`.

use std::path::PathBuf;

use pinfold_confine::SyscallGroup;
use serde::{Deserialize, Serialize};

/// A guard that is disabled in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DisabledGuard {
    SyscallGroupAllowed(SyscallGroup),
    /// The workload keeps these capabilities too.
    Capability(u64),
    NewPrivilegesGranted,
    AmbientCapabilitiesAllowed,
    InheritableCapabilitiesKept,
    /// Limits on open files, locked memory, queues, signals, core files and priorities stay those of the host.
    HostLimits,
    /// The keeper's memory, environment and descriptors are readable.
    KeeperReadable,
    HostNetwork,
    HostIpc,
    /// `/proc/sys` is writable.
    ProcSysWritable,
    /// The masked paths in `/proc` and `/sys` are visible.
    MaskedPathsVisible,
    SetuidHonoured,
    /// No limit of terminals but the host's.
    UnlimitedTerminals,
    /// A directory of the host is mounted writable under the same path.
    HostDirectory(PathBuf),
    /// `/usr`, further shares and the device files are bind mounts, with the host's inodes.
    HostInodes,
    /// A directory of the host is shared under the same path, as `/usr` is.
    Share(PathBuf),
    /// Every execution inherits a descriptor of this directory of the host.
    LeakedDirectory(PathBuf),
    /// Every execution gets an environment variable with this value.
    LeakedVariable(String),
    /// A child keeps the keeper's descriptors until its exec.
    DescriptorsKeptUntilExec,
    /// The keeper's ends of output pipes are blocking.
    BlockingOutputReads,
    /// The keeper waits without limit for a child to exec.
    UnlimitedExecWait,
    /// The probe opens its file at a fixed name and follows links.
    ProbeFollowsLinks,
    UnlimitedOutput,
    /// The spawner, started with the argument [`UNSEALED`], does not re-execute from a sealed copy.
    RuntimeUnsealed,
}

/// Argument of a spawner that must not re-execute from a sealed copy.
pub const UNSEALED: &str = "unsealed";
