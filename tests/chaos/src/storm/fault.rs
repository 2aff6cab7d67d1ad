//! What goes wrong in a round. One seed has one fault, and seeds that follow each other have all of them in turn.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Fault {
    /// The server is killed at a random moment.
    ServerKilled,
    /// And the next one too, while it takes over.
    ServerKilledTwice,
    /// The server dies at a named point between a commit and its effect, or before or after them.
    ServerDiesAtPoint,
    /// The server is not let run for some time.
    ServerStopped,
    KeeperKilled,
    /// A keeper is not let run, and stays so.
    KeeperStopped,
    /// A mount inside a sandbox is gone.
    MountLost,
    /// The directory of a body is gone.
    DirectoryLost,
    /// Processes of a body are gone with its groups.
    GroupLost,
    /// No room on the filesystem of the data directory.
    DiskFull,
    /// No more processes for the server and its sandboxes.
    PidsExhausted,
    /// No more file descriptors for the server.
    HandlesExhausted,
    /// The server's clock jumps.
    ClockJumps,
    /// Another process has the store for itself.
    StoreLocked,
    /// Every call of the engine to its store takes its time.
    StoreSlow,
    /// A lease without a body, and a body without a lease.
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

    /// Whether it needs a server behind gates: the others strike the program as it is.
    pub(crate) fn needs_gates(self) -> bool {
        matches!(self, Self::ServerDiesAtPoint | Self::ClockJumps | Self::StoreSlow | Self::HalfMade)
    }

    pub(crate) fn name(self) -> String {
        use clap::ValueEnum;
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}
