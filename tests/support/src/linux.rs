//! Real sandboxes: provider configuration for one test, start permit, clock, and the keeper of an instance.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use pinfold_lifecycle::Timestamp;
use pinfold_linux::{LinuxConfig, SpawnerProgram};
use pinfold_provider::StartPermit;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A provider on this data directory.
#[must_use]
pub fn config(data: &Path, store_id: u128, spawner: SpawnerProgram) -> LinuxConfig {
    LinuxConfig { data: data.to_owned(), store_id, spawner, clock: Arc::new(now) }
}

/// A store id of its own for each temporary directory.
#[must_use]
pub fn store_id_of(directory: &Path) -> u128 {
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.bytes().fold(0, |sum, byte| (sum << 8) | u128::from(byte))
}

/// A spawner without arguments.
#[must_use]
pub fn spawner(program: impl AsRef<Path>) -> SpawnerProgram {
    SpawnerProgram { program: program.as_ref().to_owned(), arguments: Vec::new() }
}

#[must_use]
#[expect(clippy::disallowed_methods, reason = "real sandboxes take real time")]
pub fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// Permits every start.
#[derive(Debug, Clone, Copy)]
pub struct AlwaysWanted;

#[async_trait]
impl StartPermit for AlwaysWanted {
    async fn still_wanted(&self) -> bool {
        true
    }
}

/// Process 1 of an instance, as its pid file names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeeperProcess {
    pub pid: i32,
    pub start_ticks: u64,
}

impl KeeperProcess {
    /// `control`: the control directory of the instance.
    pub fn read_in(control: &Path) -> io::Result<Self> {
        let content = fs::read_to_string(control.join("keeper.pid"))?;
        Self::parse(&content).ok_or_else(|| io::Error::other(format!("`{content}` names no process")))
    }

    fn parse(content: &str) -> Option<Self> {
        let (pid, start_ticks) = content.trim().split_once(' ')?;
        Some(Self { pid: pid.parse().ok()?, start_ticks: start_ticks.parse().ok()? })
    }

    /// A descriptor of the process, which no other process with the same pid can take the place of.
    pub fn open(self) -> io::Result<OwnedFd> {
        let pid = Pid::from_raw(self.pid).ok_or(io::ErrorKind::InvalidData)?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        if self.is_alive()? { Ok(process) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    pub fn is_alive(self) -> io::Result<bool> {
        Ok(pinfold_procfs::start_time(self.pid)? == Some(self.start_ticks))
    }
}
