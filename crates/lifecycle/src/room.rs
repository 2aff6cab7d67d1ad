//! What the host itself has left, against what is kept free on it. What cannot be measured is not taken for plenty,
//! and nothing here ever ends a sandbox: being short of something is a reason to refuse the next one, and no more.

use serde::{Deserialize, Serialize};

/// How much of the host stays free. Zero: it is not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reserve {
    pub disk_mb: u64,
    pub memory_mb: u64,
    pub processes: u64,
}

/// What was measured. None: it could not be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostRoom {
    pub disk_mb: Option<u64>,
    pub memory_mb: Option<u64>,
    pub processes: Option<u64>,
    /// The evidence that nothing can be written any more, which is more than being full.
    pub unusable: Option<String>,
}

/// What clearing away stale data came to, or would come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Cleared {
    pub cleaned: u64,
    /// Too young, not proven gone, or not to be removed.
    pub skipped: u64,
    /// What was cleaned took so much. What records take is not known, and not part of it.
    #[serde(default)]
    pub bytes: u64,
}

impl Cleared {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cleaned: self.cleaned.saturating_add(other.cleaned),
            skipped: self.skipped.saturating_add(other.skipped),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// What there is too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Short {
    Disk,
    Memory,
    Processes,
}

/// Why the host takes no more for now.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NoRoom {
    #[error("the host is short of disk: {available_mb} MiB available and {needed_mb} needed")]
    LowDisk { available_mb: u64, needed_mb: u64, cleared: Cleared },
    #[error("the host is short of memory: {available_mb} MiB available and {needed_mb} needed")]
    LowMemory { available_mb: u64, needed_mb: u64 },
    #[error("the host is short of processes: {available} available and {needed} needed")]
    LowProcesses { available: u64, needed: u64 },
    #[error("it could not be measured how much the host has left: {what}")]
    Unmeasurable { what: String },
    #[error("the filesystem of the host cannot be written: {why}")]
    Unusable { why: String },
}

impl NoRoom {
    /// Every word there is.
    pub const WORDS: [&str; 5] =
        ["host_disk", "host_memory", "host_processes", "host_unmeasurable", "host_unusable"];

    /// One word for what is short, as it is counted.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::LowDisk { .. } => "host_disk",
            Self::LowMemory { .. } => "host_memory",
            Self::LowProcesses { .. } => "host_processes",
            Self::Unmeasurable { .. } => "host_unmeasurable",
            Self::Unusable { .. } => "host_unusable",
        }
    }
}

impl HostRoom {
    /// Whether there is more than is kept free. The disk comes last: something can be done about that.
    pub fn admit(&self, keep: &Reserve, cleared: Cleared) -> Result<(), NoRoom> {
        if let Some(why) = &self.unusable {
            return Err(NoRoom::Unusable { why: why.clone() });
        }
        if let Some(available_mb) = short(Short::Memory, self.memory_mb, keep.memory_mb)? {
            return Err(NoRoom::LowMemory { available_mb, needed_mb: keep.memory_mb });
        }
        if let Some(available) = short(Short::Processes, self.processes, keep.processes)? {
            return Err(NoRoom::LowProcesses { available, needed: keep.processes });
        }
        if let Some(available_mb) = short(Short::Disk, self.disk_mb, keep.disk_mb)? {
            return Err(NoRoom::LowDisk { available_mb, needed_mb: keep.disk_mb, cleared });
        }
        Ok(())
    }
}

/// How much there is, if that is too little.
fn short(what: Short, left: Option<u64>, needed: u64) -> Result<Option<u64>, NoRoom> {
    match left {
        _ if needed == 0 => Ok(None),
        Some(left) => Ok((left < needed).then_some(left)),
        None => Err(NoRoom::Unmeasurable { what: what.word().to_owned() }),
    }
}

impl Short {
    fn word(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Memory => "memory",
            Self::Processes => "processes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Reserve = Reserve { disk_mb: 100, memory_mb: 10, processes: 5 };

    fn plenty() -> HostRoom {
        HostRoom { disk_mb: Some(100), memory_mb: Some(10), processes: Some(5), unusable: None }
    }

    #[test]
    fn what_is_kept_free_is_refused_with_the_figures() {
        let cleared = Cleared { cleaned: 1, skipped: 2, bytes: 3 };
        let low_disk = HostRoom { disk_mb: Some(99), ..plenty() };
        let low_memory = HostRoom { memory_mb: Some(9), ..plenty() };
        let low_processes = HostRoom { processes: Some(0), ..plenty() };

        assert_eq!(plenty().admit(&KEEP, cleared), Ok(()));
        let told = NoRoom::LowDisk { available_mb: 99, needed_mb: 100, cleared };
        assert_eq!(low_disk.admit(&KEEP, cleared), Err(told));
        let told = NoRoom::LowMemory { available_mb: 9, needed_mb: 10 };
        assert_eq!(low_memory.admit(&KEEP, cleared), Err(told));
        let told = NoRoom::LowProcesses { available: 0, needed: 5 };
        assert_eq!(low_processes.admit(&KEEP, cleared), Err(told));
    }

    #[test]
    fn what_cannot_be_measured_is_refused_unless_nobody_asks() {
        let nothing = HostRoom::default();

        assert!(matches!(nothing.admit(&KEEP, Cleared::default()), Err(NoRoom::Unmeasurable { .. })));
        assert_eq!(nothing.admit(&Reserve::default(), Cleared::default()), Ok(()));
    }

    #[test]
    fn a_filesystem_that_cannot_be_written_is_told_apart_from_a_full_one() {
        let unusable = HostRoom { unusable: Some("read-only".into()), disk_mb: Some(0), ..plenty() };

        let refused = unusable.admit(&KEEP, Cleared::default());

        assert_eq!(refused, Err(NoRoom::Unusable { why: "read-only".into() }));
    }

    #[test]
    fn every_word_is_in_the_list() {
        // One that is added breaks this match, and belongs into the lists.
        let place = |reason: &NoRoom| match reason {
            NoRoom::LowDisk { .. } => 0,
            NoRoom::LowMemory { .. } => 1,
            NoRoom::LowProcesses { .. } => 2,
            NoRoom::Unmeasurable { .. } => 3,
            NoRoom::Unusable { .. } => 4,
        };
        let all = [
            NoRoom::LowDisk { available_mb: 0, needed_mb: 1, cleared: Cleared::default() },
            NoRoom::LowMemory { available_mb: 0, needed_mb: 1 },
            NoRoom::LowProcesses { available: 0, needed: 1 },
            NoRoom::Unmeasurable { what: "memory".into() },
            NoRoom::Unusable { why: "read-only".into() },
        ];

        assert_eq!(all.each_ref().map(NoRoom::word), NoRoom::WORDS);
        assert!(all.iter().enumerate().all(|(at, reason)| place(reason) == at));
    }
}
