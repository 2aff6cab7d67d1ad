//! A machine of its own, with nothing but cgroup v2, as users have it: Debian's kernel for clouds in an emulator, with
//! our programs and a few of this host's in its memory.

mod built;
mod emulator;
mod image;
mod kernel;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::needs;
use crate::cargo;
pub(super) use built::{built, program};
pub(super) use emulator::{Emulator, Heard, now};
pub(super) use image::Root;
use kernel::Kernel;
pub(super) use kernel::said;

/// What this host lacks to run one, if anything.
pub(super) fn lacks() -> Result<Option<String>> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("the machine is an x86_64 and runs programs of this host, which is not");
    }
    let missing = needs::missing_for_the_machine();
    Ok((!missing.is_empty()).then(|| format!("the machine needs {}", missing.join(", "))))
}

/// One that can be started, again and again.
pub(super) struct Machine {
    kernel: Kernel,
    image: PathBuf,
    place: PathBuf,
}

impl Machine {
    /// Has these programs of this host, and what it is filled with.
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

    /// Where files of its own are kept.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// With more words for its kernel, of which those such as `NAME=value` reach its first program, and with disks, as
    /// the emulator's `-drive` takes them: `/dev/nvme0n1`, `/dev/nvme0n2` and so on.
    pub(super) fn start(&self, words: &str, disks: &[String]) -> Result<Emulator> {
        Emulator::start(&self.kernel.image, &self.image, words, disks)
    }
}
