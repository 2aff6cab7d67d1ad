//! Finds Prometheus on the host, or unpacks Debian's package below target/ without installing it, so that no
//! service starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

pub(super) struct Programs {
    pub(super) prometheus: PathBuf,
    pub(super) promtool: PathBuf,
}

impl Programs {
    /// Unpacks them the first time.
    pub(super) fn fetch(place: &Path) -> Result<Self> {
        if let (Some(prometheus), Some(promtool)) = (on_path("prometheus"), on_path("promtool")) {
            return Ok(Self { prometheus, promtool });
        }
        let unpacked = place.join("unpacked");
        if !unpacked.exists() {
            unpack(place)?;
        }
        let program = |name: &str| unpacked.join("usr/bin").join(name);
        Ok(Self { prometheus: program("prometheus"), promtool: program("promtool") })
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// Renamed into place only when it is whole.
fn unpack(place: &Path) -> Result<()> {
    let (archives, draft) = (place.join("archives"), place.join("draft"));
    for directory in [&archives, &draft] {
        fs::create_dir_all(directory).with_context(|| format!("could not make `{}`", directory.display()))?;
    }
    let download = || {
        let mut command = Command::new("apt-get");
        command.args(["-q", "-o", "APT::Sandbox::User=root", "download", "prometheus"]);
        command.current_dir(&archives);
        succeed(command)
    };
    // Package lists may never have been fetched on this machine.
    if download().is_err() {
        let mut update = Command::new("apt-get");
        update.args(["-q", "update"]);
        succeed(update)?;
        download()?;
    }
    for archive in fs::read_dir(&archives).context("could not list what was fetched")? {
        let mut command = Command::new("dpkg-deb");
        command.arg("-x").arg(archive.context("could not list what was fetched")?.path()).arg(&draft);
        succeed(command)?;
    }
    fs::rename(draft, place.join("unpacked")).context("could not put the package in place")
}

fn succeed(mut command: Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("could not run {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
