//! Power cuts: a machine with a server under load is killed at a random moment and started again on the same disk,
//! and a program on it (`tests/power`) compares the server's state with a ledger of everything that was
//! acknowledged. The machine loses its memory, with whatever its kernel had not written yet; of the writes after
//! the last flush any part may be lost, in any order, as with a disk that has a write cache. Not covered: disks
//! that ignore flushes, corrupt old data, or tear a block of 4 KiB.

mod disks;
mod round;
mod writes;

use std::path::Path;

use anyhow::Result;

use super::machine::{self, Machine, Root, now};
use super::needs;
use super::tally::Tally;
use crate::builds::{PRODUCT, kept_program};
use disks::Disks;
use round::Round;

/// This host's programs that run on the machine, inside and outside of sandboxes.
const HOST_PROGRAMS: &[&str] =
    &["cat", "echo", "false", "grep", "mkdir", "mke2fs", "mount", "sh", "sleep", "true", "umount", "unshare"];
const IN_CI: u64 = 2;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often the power is cut
    #[arg(long, default_value_t = 20)]
    rounds: u64,
    /// Seed of the load, the moments and the losses; a new one each time by default
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs only this stage. Whether it passed.
pub(crate) fn run_with(options: &Options) -> Result<bool> {
    needs::install_for_the_machine();
    if !PRODUCT.make()? {
        return Ok(false);
    }
    let tally = run(options)?;
    println!("{tally}");
    Ok(tally.failed == 0 && tally.skipped == 0)
}

/// As a stage of the test run.
pub(super) fn some_rounds() -> Result<Tally> {
    run(&Options { rounds: IN_CI, seed: None })
}

/// Counts each round as a test.
fn run(options: &Options) -> Result<Tally> {
    if let Some(why) = machine::missing_requirement()? {
        println!("skipped: {why}");
        return Ok(Tally { skipped: 1, ..Tally::default() });
    }
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("seed {seed}");
    let machine = Machine::make("power", HOST_PROGRAMS, put_programs_on)?;
    let disks = Disks::make(machine.directory())?;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut tally = Tally::default();
    for number in 1..=options.rounds + 1 {
        let round = Round { machine: &machine, disks: &disks, seed: seed + number, rng: rng.fork() };
        let begun = now();
        let is_last = number > options.rounds;
        let (summary, violations) = if is_last { round.finish()? } else { round.cut_short()? };
        println!("round {number}: {summary}; {:.1} s", begun.elapsed().as_secs_f32());
        tally.add(Tally::of_one(violations.is_empty()));
        if !violations.is_empty() {
            violations.iter().for_each(|line| println!("  {line}"));
            println!("  with seed {seed}; its disks are in `{}`", machine.directory().display());
            return Ok(tally);
        }
    }
    disks.remove();
    Ok(tally)
}

fn put_programs_on(root: &mut Root) -> Result<()> {
    for name in ["pinfold", "pinfold-power"] {
        root.add_stripped(&kept_program(name), &Path::new("/usr/local/bin").join(name))?;
    }
    root.add_text("etc/pinfold.toml", include_str!("power/pinfold.toml"))?;
    root.add_first_program(include_str!("power/guest.sh"))
}
