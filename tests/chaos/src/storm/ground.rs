//! Where a round takes place: a data directory on a filesystem of its own and of limited size, and a group of its own
//! in which processes are counted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pinfold_checker::Patience;

use crate::served::settings;

const SIZE_MB: u64 = 256;

pub(crate) struct Ground {
    pub(crate) directory: PathBuf,
    pub(crate) data: PathBuf,
    /// None: nothing counts processes here.
    pub(crate) counted: Option<PathBuf>,
}

impl Ground {
    /// In an enclosure, with which the mounts go.
    pub(crate) fn prepare(directory: &Path, name: &str) -> Result<Self> {
        let data = directory.join("data");
        fs::create_dir_all(&data).context("could not make the data directory")?;
        mount_memory(&data, SIZE_MB)?;
        // What the server keeps in memory beside its data directory goes with the enclosure, too.
        mount_memory(Path::new("/dev/shm"), SIZE_MB)?;
        fs::write(data.join(settings::FILE), settings::file()).context("could not write the settings")?;
        Ok(Self { directory: directory.to_owned(), data, counted: counted_group(name) })
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Some(group) = &self.counted {
            remove_groups(group);
        }
    }
}

fn mount_memory(at: &Path, size_mb: u64) -> Result<()> {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", &format!("size={size_mb}m"), "tmpfs"]).arg(at);
    let status = command.status().context("could not run `mount`")?;
    ensure!(status.success(), "could not mount a filesystem of limited size at `{}`", at.display());
    Ok(())
}

/// By v1, where what the server makes is below its own group, or by v2.
fn counted_group(name: &str) -> Option<PathBuf> {
    let homes = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].map(Path::new);
    let group = homes.into_iter().filter(|home| home.is_dir()).map(|home| home.join(name));
    group.into_iter().find(|group| {
        fs::create_dir(group).is_ok() && {
            let counts = group.join("pids.max").exists();
            if !counts {
                let _ = fs::remove_dir(group);
            }
            counts
        }
    })
}

/// From the deepest up. What is busy is waited for.
pub(crate) fn remove_groups(top: &Path) {
    let mut groups = vec![top.to_owned()];
    let mut seen = 0;
    while seen < groups.len() {
        let entries = fs::read_dir(&groups[seen]).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        groups.extend(below.map(|entry| entry.path()).collect::<Vec<_>>());
        seen += 1;
    }
    let patience = Patience::of(Duration::from_secs(2));
    for group in groups.iter().rev() {
        let removed = || match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => None,
            _ => Some(()),
        };
        patience.until(removed);
    }
}
