//! A round's environment: a data directory on a tmpfs of limited size, and a cgroup that counts processes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pinfold_checker::Deadline;

use crate::failpoint_server::settings;

const SIZE_MB: u64 = 256;

pub(crate) struct Fixture {
    pub(crate) directory: PathBuf,
    pub(crate) data: PathBuf,
    /// None: this host has no pids controller for us.
    pub(crate) counted: Option<PathBuf>,
}

impl Fixture {
    /// Runs in a mount namespace, so that the mounts go with it.
    pub(crate) fn prepare(directory: &Path, name: &str) -> Result<Self> {
        let data = directory.join("data");
        fs::create_dir_all(&data).context("could not make the data directory")?;
        mount_tmpfs(&data, SIZE_MB)?;
        // The server's runtime directory on tmpfs goes with the mount namespace, too.
        mount_tmpfs(Path::new("/dev/shm"), SIZE_MB)?;
        fs::write(data.join(settings::FILE), settings::file()).context("could not write the settings")?;
        Ok(Self { directory: directory.to_owned(), data, counted: create_pids_cgroup(name) })
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(group) = &self.counted {
            remove_cgroups(group);
        }
    }
}

fn mount_tmpfs(at: &Path, size_mb: u64) -> Result<()> {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", &format!("size={size_mb}m"), "tmpfs"]).arg(at);
    let status = command.status().context("could not run `mount`")?;
    ensure!(status.success(), "could not mount a filesystem of limited size at `{}`", at.display());
    Ok(())
}

/// With cgroup v1, where the server's cgroups are below its own, or with v2.
fn create_pids_cgroup(name: &str) -> Option<PathBuf> {
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

/// Removes the deepest first, and waits for busy ones.
pub(crate) fn remove_cgroups(top: &Path) {
    let mut groups = vec![top.to_owned()];
    let mut seen = 0;
    while seen < groups.len() {
        let entries = fs::read_dir(&groups[seen]).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        groups.extend(below.map(|entry| entry.path()).collect::<Vec<_>>());
        seen += 1;
    }
    let deadline = Deadline::after(Duration::from_secs(2));
    for group in groups.iter().rev() {
        let removed = || match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => None,
            _ => Some(()),
        };
        deadline.poll(removed);
    }
}
