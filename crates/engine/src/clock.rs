//! The engine's clock: the wall clock is read once per boot of the host, then the kernel's boot counter is
//! used. So neither a correction of the wall clock nor a restart of the program moves a deadline.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use pinfold_lifecycle::Timestamp;
use rustix::time::{ClockId, clock_gettime};

#[async_trait]
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
    async fn sleep_until(&self, at: Timestamp);
}

/// The clock shared by all processes on one data directory.
#[derive(Debug)]
pub struct HostClock {
    /// Wall-clock time at counter zero.
    zero_ms: i64,
}

#[derive(Debug, thiserror::Error)]
#[error("could not {doing} the clock anchor file `{}`", path.display())]
pub struct AnchorError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl HostClock {
    /// Reads the anchor file of this boot, or writes it.
    pub fn anchored(directory: &Path, boot_id: &str) -> Result<Self, AnchorError> {
        let path = directory.join(format!("clock.{boot_id}"));
        let read = || {
            fs::read_to_string(&path).map_err(|source| AnchorError {
                doing: "read",
                path: path.clone(),
                source,
            })
        };
        if !path.exists() {
            write_anchor(directory, &path).map_err(|source| AnchorError {
                doing: "write",
                path: path.clone(),
                source,
            })?;
        }
        let zero_ms = read()?.trim().parse().map_err(|error: std::num::ParseIntError| AnchorError {
            doing: "parse",
            path: path.clone(),
            source: io::Error::new(io::ErrorKind::InvalidData, error),
        })?;
        Ok(Self { zero_ms })
    }
}

/// Writes the anchor atomically. If two processes write at once, the first one wins.
fn write_anchor(directory: &Path, path: &Path) -> io::Result<()> {
    let zero_ms = wall_ms().saturating_sub(counter_ms());
    let draft = directory.join(pinfold_private_files::temporary_name(".clock")?);
    let mut file = pinfold_private_files::create(&draft)?;
    writeln!(file, "{zero_ms}")?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

#[expect(clippy::disallowed_methods, reason = "the only read of the wall clock")]
fn wall_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

/// `CLOCK_BOOTTIME`: counts while the host is suspended, and is the same for every process of one boot.
fn counter_ms() -> i64 {
    let counter = clock_gettime(ClockId::Boottime);
    counter.tv_sec * 1_000 + counter.tv_nsec / 1_000_000
}

#[async_trait]
impl Clock for HostClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.zero_ms.saturating_add(counter_ms()))
    }

    async fn sleep_until(&self, at: Timestamp) {
        loop {
            let now = self.now();
            if at <= now {
                return;
            }
            tokio::time::sleep(Duration::from_millis(at.ms_since(now))).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_of_one_boot_share_one_clock() {
        let directory = tempfile::tempdir().unwrap();
        let first = HostClock::anchored(directory.path(), "boot").unwrap();

        let second = HostClock::anchored(directory.path(), "boot").unwrap();

        assert_eq!(first.zero_ms, second.zero_ms);
    }

    #[test]
    fn an_anchor_that_is_damaged_is_named() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("clock.boot"), "half past").unwrap();

        let error = HostClock::anchored(directory.path(), "boot").unwrap_err();

        assert!(error.to_string().contains("clock.boot"));
    }
}
