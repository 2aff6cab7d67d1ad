//! Runs all rounds. They are independent, and one uses the time in which another waits, so some run in parallel.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::round::Round;
use crate::tally::Tally;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The program under test
    #[arg(long)]
    pinfold: PathBuf,
    #[arg(long, default_value_t = 100)]
    rounds: u64,
    /// The seed of the first round; each later one has the next
    #[arg(long, default_value_t = 20_261_116)]
    seed: u64,
}

const SIDE_BY_SIDE: usize = 2;
/// Slower rounds are printed: they may have waited where they should not.
const SLOW: Duration = Duration::from_secs(20);

struct Rounds<'a> {
    options: &'a Options,
    next: AtomicU64,
    failed: AtomicBool,
    tally: Mutex<Tally>,
}

#[expect(clippy::disallowed_methods, reason = "a test of real processes takes real time")]
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let begun = Instant::now();
    let rounds = Rounds {
        options,
        next: AtomicU64::new(0),
        failed: AtomicBool::new(false),
        tally: Mutex::new(Tally::default()),
    };
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| rounds.go_on());
        }
    });
    if rounds.failed.into_inner() {
        return Ok(ExitCode::FAILURE);
    }
    let tally = rounds.tally.into_inner().ok().context("a round panicked")?;
    println!("{} rounds in {} s: {tally}", options.rounds, begun.elapsed().as_secs());
    tally.check_coverage()?;
    Ok(ExitCode::SUCCESS)
}

impl Rounds<'_> {
    fn go_on(&self) {
        while !self.failed.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.options.rounds {
                return;
            }
            let seed = self.options.seed + number;
            if let Err(error) = self.one(seed) {
                self.failed.store(true, Ordering::Relaxed);
                println!("seed {seed}, round {}: {error:#}", number + 1);
                println!("to reproduce: cargo xtask chaos --makers --rounds 1 --seed {seed}");
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a test of real processes takes real time")]
    fn one(&self, seed: u64) -> Result<()> {
        let begun = Instant::now();
        let mut tally = Tally::default();
        Round::new(&self.options.pinfold, seed)?.go(&mut tally)?;
        if begun.elapsed() > SLOW {
            println!("seed {seed} took {} s: {tally}", begun.elapsed().as_secs());
        }
        self.tally.lock().ok().context("another round panicked")?.add(tally);
        Ok(())
    }
}
