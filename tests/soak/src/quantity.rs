//! The measured quantities. Without a leak each returns to the same value.

/// In display order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Quantity {
    ServerMemory,
    ServerFiles,
    OthersMemory,
    OthersFiles,
    Processes,
    Groups,
    Mounts,
    Devices,
    Disk,
    Entries,
    Store,
    Rate,
    Busy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Count,
    PerSecond,
    Percent,
}

impl Quantity {
    pub(crate) const ALL: [Self; 13] = [
        Self::ServerMemory,
        Self::ServerFiles,
        Self::OthersMemory,
        Self::OthersFiles,
        Self::Processes,
        Self::Groups,
        Self::Mounts,
        Self::Devices,
        Self::Disk,
        Self::Entries,
        Self::Store,
        Self::Rate,
        Self::Busy,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ServerMemory => "server memory",
            Self::ServerFiles => "server file descriptors",
            Self::OthersMemory => "spawner and keepers memory",
            Self::OthersFiles => "spawner and keepers file descriptors",
            Self::Processes => "processes",
            Self::Groups => "cgroups",
            Self::Mounts => "mounts",
            Self::Devices => "loop devices",
            Self::Disk => "disk",
            Self::Entries => "files and directories",
            Self::Store => "store",
            Self::Rate => "cycles per second",
            Self::Busy => "CPU busy",
        }
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::ServerMemory | Self::OthersMemory | Self::Disk | Self::Store => Unit::Bytes,
            Self::ServerFiles
            | Self::OthersFiles
            | Self::Processes
            | Self::Groups
            | Self::Mounts
            | Self::Devices
            | Self::Entries => Unit::Count,
            Self::Rate => Unit::PerSecond,
            Self::Busy => Unit::Percent,
        }
    }

    /// Quantities that only describe the load have no bound.
    pub(crate) fn is_bounded(self) -> bool {
        !matches!(self, Self::Rate | Self::Busy)
    }

    pub(crate) fn format(self, value: f64) -> String {
        match self.unit() {
            Unit::Bytes => format!("{:.2} MiB", value / f64::from(1 << 20)),
            Unit::Count => format!("{value:.0}"),
            Unit::PerSecond => format!("{value:.1}/s"),
            Unit::Percent => format!("{value:.0} %"),
        }
    }
}
