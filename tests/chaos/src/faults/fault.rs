//! The faults. A seed selects one, and consecutive seeds go through all of them.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Fault {
    /// The server is killed at a random moment.
    ServerKilled,
    /// The server is killed, and so is the next one while it recovers.
    ServerKilledTwice,
    /// The server crashes at a failpoint between a commit and its effect, or around them.
    ServerDiesAtPoint,
    /// The server is stopped (SIGSTOP) for some time.
    ServerStopped,
    KeeperKilled,
    /// A keeper is stopped (SIGSTOP) and stays so.
    KeeperStopped,
    /// A mount inside a sandbox is unmounted.
    MountLost,
    /// An instance's directory is removed.
    DirectoryLost,
    /// An instance's processes are killed and its cgroups removed.
    GroupLost,
    /// The file system of the data directory is full.
    DiskFull,
    /// The pids limit of the server and its sandboxes is reached.
    PidsExhausted,
    /// The server's limit of file descriptors is reached.
    HandlesExhausted,
    /// The server's clock jumps.
    ClockJumps,
    /// Another process holds an exclusive lock on the store.
    StoreLocked,
    /// Every store call of the engine is slow.
    StoreSlow,
    /// A lease without an instance, and an instance without a lease.
    HalfMade,
}

impl Fault {
    pub(crate) const ALL: [Self; 16] = [
        Self::ServerKilled,
        Self::ServerKilledTwice,
        Self::ServerDiesAtPoint,
        Self::ServerStopped,
        Self::KeeperKilled,
        Self::KeeperStopped,
        Self::MountLost,
        Self::DirectoryLost,
        Self::GroupLost,
        Self::DiskFull,
        Self::PidsExhausted,
        Self::HandlesExhausted,
        Self::ClockJumps,
        Self::StoreLocked,
        Self::StoreSlow,
        Self::HalfMade,
    ];

    pub(crate) fn of(seed: u64) -> Self {
        let count = u64::try_from(Self::ALL.len()).unwrap_or(1);
        usize::try_from(seed % count).map_or(Self::ServerKilled, |index| Self::ALL[index])
    }

    /// Whether it needs a server with failpoints; the other faults hit the unmodified program.
    pub(crate) fn needs_failpoints(self) -> bool {
        matches!(self, Self::ServerDiesAtPoint | Self::ClockJumps | Self::StoreSlow | Self::HalfMade)
    }

    pub(crate) fn name(self) -> String {
        use clap::ValueEnum;
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}
