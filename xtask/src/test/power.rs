//! Power cuts: a machine with a server under load is killed at a random moment and started again on the same disk, and a
//! judge on it compares what is there with a ledger of all that was acknowledged (`tests/power`). Lost is the machine's
//! memory, with whatever its kernel had not written yet; and of what it had written, all that came after the last flush
//! may be lost too, in whole or in part and in any order, as with a disk that has a cache of its own. Not tried: disks
//! that lie about flushes, that damage what was there before, or that tear a block of 4 KiB.

mod disks;
mod round;
mod writes;

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::machine::{self, Machine, Root, built, now, program};
use super::needs;
use super::tally::Tally;
use disks::Disks;
use round::Round;

/// This host's programs that run there, in sandboxes and beside them.
const HOST_PROGRAMS: &[&str] =
    &["cat", "echo", "false", "grep", "mkdir", "mke2fs", "mount", "sh", "sleep", "true", "umount", "unshare"];
const IN_CI: u64 = 2;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often the power is cut
    #[arg(long, default_value_t = 20)]
    rounds: u64,
    /// Decides the load, the moments and what is lost; a new one each time by default
    #[arg(long)]
    seed: Option<u64>,
}

/// Says whether all went well, for who asks for this alone.
pub(crate) fn run_with(options: &Options) -> Result<bool> {
    needs::install_for_the_machine();
    let tally = run(options)?;
    println!("{tally}");
    Ok(tally.failed == 0 && tally.skipped == 0)
}

/// As a stage of all tests.
pub(super) fn some_rounds() -> Result<Tally> {
    run(&Options { rounds: IN_CI, seed: None })
}

/// Counts rounds.
fn run(options: &Options) -> Result<Tally> {
    if let Some(why) = machine::lacks()? {
        println!("skipped: {why}");
        return Ok(Tally { skipped: 1, ..Tally::default() });
    }
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("seed {seed}");
    let programs = Programs::build()?;
    let machine = Machine::make("power", HOST_PROGRAMS, |root| programs.put_on(root))?;
    let disks = Disks::make(machine.place())?;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut tally = Tally::default();
    for number in 1..=options.rounds + 1 {
        let round = Round { machine: &machine, disks: &disks, seed: seed + number, rng: rng.fork() };
        let begun = now();
        let is_last = number > options.rounds;
        let (told, broken) = if is_last { round.run_out()? } else { round.cut_short()? };
        println!("round {number}: {told}; {:.1} s", begun.elapsed().as_secs_f32());
        tally.add(Tally::of_one(broken.is_empty()));
        if !broken.is_empty() {
            broken.iter().for_each(|line| println!("  {line}"));
            println!("  with seed {seed}; its disks are in `{}`", machine.place().display());
            return Ok(tally);
        }
    }
    disks.remove();
    Ok(tally)
}

struct Programs {
    pinfold: PathBuf,
    power: PathBuf,
}

impl Programs {
    fn build() -> Result<Self> {
        let built = built(&["build", "--package", "pinfold-cli", "--package", "pinfold-power"])?;
        Ok(Self { pinfold: program(&built, "pinfold")?, power: program(&built, "pinfold-power")? })
    }

    fn put_on(&self, root: &mut Root) -> Result<()> {
        root.add_stripped(&self.pinfold, Path::new("/usr/local/bin/pinfold"))?;
        root.add_stripped(&self.power, Path::new("/usr/local/bin/pinfold-power"))?;
        root.add_text("etc/pinfold.toml", include_str!("power/pinfold.toml"))?;
        root.add_first_program(include_str!("power/guest.sh"))
    }
}
