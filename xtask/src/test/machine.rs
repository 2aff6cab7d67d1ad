//! An emulated machine with cgroup v2 only: Debian's cloud kernel, with our programs and a few of this host's in
//! its initramfs.

mod emulator;
mod image;
mod kernel;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::needs;
use crate::cargo;
pub(super) use emulator::{ConsoleEvent, Emulator, now};
pub(super) use image::Root;
use kernel::Kernel;
pub(super) use kernel::output_of;

/// What this host lacks to run a machine, if anything.
pub(super) fn missing_requirement() -> Result<Option<String>> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("the machine is an x86_64 and runs programs of this host, which is not");
    }
    let missing = needs::missing_for_the_machine();
    Ok((!missing.is_empty()).then(|| format!("the machine needs {}", missing.join(", "))))
}

/// A machine that can be started repeatedly.
pub(super) struct Machine {
    kernel: Kernel,
    image: PathBuf,
    place: PathBuf,
}

impl Machine {
    /// Builds its image with these programs of this host and what `fill` adds.
    pub(super) fn make(
        name: &str,
        host_programs: &[&str],
        fill: impl FnOnce(&mut Root) -> Result<()>,
    ) -> Result<Self> {
        let machines = cargo::repository_root().join("target/xtask/machine");
        let place = machines.join(name);
        fs::create_dir_all(&place).with_context(|| format!("could not create `{}`", place.display()))?;
        let kernel = kernel::get(&machines)?;
        let image = image::make(&place, &kernel, host_programs, fill)?;
        Ok(Self { kernel, image, place })
    }

    /// Directory for its files.
    pub(super) fn directory(&self) -> &Path {
        &self.place
    }

    /// Starts it with more kernel arguments, of which `NAME=value` reach the init script's environment, and with
    /// disks as for the emulator's `-drive`: `/dev/nvme0n1`, `/dev/nvme0n2` and so on.
    pub(super) fn start(&self, words: &str, disks: &[String]) -> Result<Emulator> {
        Emulator::start(&self.kernel.image, &self.image, words, disks)
    }
}
