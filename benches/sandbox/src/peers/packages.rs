//! The peers' programs: Debian's packages, unpacked below target/ and not installed. On other hosts, what is
//! installed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

const PACKAGES: [&str; 6] = ["bubblewrap", "crun", "libyajl2", "runc", "containerd", "docker.io"];

pub(crate) struct Programs {
    unpacked: Option<PathBuf>,
}

impl Programs {
    /// Unpacks them the first time.
    pub(crate) fn fetch() -> Result<Self> {
        let own = std::env::current_exe().context("could not find this program's own file")?;
        let target = own.parent().and_then(Path::parent).context("it is not in a build directory")?;
        let peers = target.join("bench-peers");
        if !peers.join("unpacked").exists() {
            if which(&search_path(), "apt-get").is_none() {
                return Ok(Self::none());
            }
            unpack(&peers)?;
        }
        Ok(Self { unpacked: Some(peers.join("unpacked")) })
    }

    /// Only what the host has.
    pub(crate) fn none() -> Self {
        Self { unpacked: None }
    }

    pub(crate) fn find(&self, program: &str) -> Option<PathBuf> {
        which(&self.path(), program)
    }

    /// For programs that call each other, and for their bundled libraries.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let Some(unpacked) = &self.unpacked else { return Vec::new() };
        let libraries = unpacked.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
        vec![
            ("PATH".into(), self.path().to_string_lossy().into_owned()),
            ("LD_LIBRARY_PATH".into(), libraries.display().to_string()),
        ]
    }

    fn path(&self) -> OsString {
        let Some(unpacked) = &self.unpacked else { return search_path() };
        let mut path = OsString::new();
        for directory in ["usr/sbin", "usr/bin"] {
            path.push(unpacked.join(directory));
            path.push(":");
        }
        path.push(search_path());
        path
    }
}

fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin".into())
}

fn which(path: &OsString, program: &str) -> Option<PathBuf> {
    std::env::split_paths(path).map(|directory| directory.join(program)).find(|path| path.is_file())
}

/// Renamed into place when complete.
fn unpack(peers: &Path) -> Result<()> {
    let (archives, draft) = (peers.join("archives"), peers.join("draft"));
    for directory in [&archives, &draft] {
        fs::create_dir_all(directory).with_context(|| format!("could not make `{}`", directory.display()))?;
    }
    println!("fetching {}", PACKAGES.join(", "));
    let download = || {
        let mut command = Command::new("apt-get");
        command.args(["-q", "-o", "APT::Sandbox::User=root", "download"]).args(PACKAGES);
        command.current_dir(&archives);
        run(command)
    };
    if download().is_err() {
        let mut update = Command::new("apt-get");
        update.args(["-q", "update"]);
        run(update)?;
        download()?;
    }
    for archive in fs::read_dir(&archives)? {
        let mut command = Command::new("dpkg-deb");
        command.arg("-x").arg(archive?.path()).arg(&draft);
        run(command)?;
    }
    fs::rename(draft, peers.join("unpacked")).context("could not put the packages in place")
}

fn run(mut command: Command) -> Result<()> {
    let status =
        command.stdout(Stdio::null()).status().with_context(|| format!("could not run {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
