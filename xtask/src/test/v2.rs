//! The tests of the Linux provider on a machine of its own: an older kernel, and nothing but cgroup v2, as users have
//! it. Debian's kernel for clouds boots in an emulator, with our programs and a few of this host's in its memory.

mod console;
mod image;
mod kernel;
mod machine;
mod programs;

use std::fs;

use anyhow::{Context, Result, bail};

use super::needs;
use super::tally::Tally;
use crate::cargo;

/// Says whether all went well, for who asks for this stage alone.
pub(super) fn run_alone() -> Result<bool> {
    needs::install_for_the_machine();
    let tally = run()?;
    println!("{tally}");
    Ok(tally.failed == 0 && tally.skipped == 0 && tally.passed > 0)
}

/// Counts what the console says.
pub(super) fn run() -> Result<Tally> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("the machine is an x86_64 and runs programs of this host, which is not");
    }
    let missing = needs::missing_for_the_machine();
    if !missing.is_empty() {
        println!("skipped: the machine needs {}", missing.join(", "));
        return Ok(Tally { skipped: 1, ..Tally::default() });
    }
    let place = cargo::repository_root().join("target/xtask/v2");
    fs::create_dir_all(&place).with_context(|| format!("could not create `{}`", place.display()))?;
    let kernel = kernel::get(&place)?;
    let programs = programs::build()?;
    let image = image::make(&place, &kernel, &programs)?;
    let verdict = machine::run(&kernel.image, &image)?;
    verdict.tally(programs.tests.len())
}
