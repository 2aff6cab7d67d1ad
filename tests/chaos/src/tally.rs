//! What all rounds together went through, and how long each part took: one sees that they were not empty.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pinfold_lifecycle::{Lease, Life};
use pinfold_store::Stored;

#[derive(Default)]
pub(crate) struct Tally {
    rounds: u64,
    /// Rounds in which something was promised and read back.
    rounds_with_promises: u64,
    /// Sandboxes that were promised to stay, and did.
    kept: usize,
    /// What the records said right after the kill.
    half_made: usize,
    whole: usize,
    half_stopped: usize,
    /// Bodies that were there right after the kill and that nobody wanted.
    ended: usize,
    phases: BTreeMap<&'static str, Duration>,
}

impl Tally {
    #[expect(clippy::disallowed_methods, reason = "a test of real processes takes real time")]
    pub(crate) fn time<T>(&mut self, phase: &'static str, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        *self.phases.entry(phase).or_default() += begun.elapsed();
        done
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.rounds_with_promises += other.rounds_with_promises;
        self.kept += other.kept;
        self.half_made += other.half_made;
        self.whole += other.whole;
        self.half_stopped += other.half_stopped;
        self.ended += other.ended;
        for (phase, took) in other.phases {
            *self.phases.entry(phase).or_default() += took;
        }
    }

    pub(crate) fn killed(&mut self, records: &[Stored]) {
        for stored in records {
            match (&stored.sandbox.life, &stored.sandbox.lease) {
                (Life::Wanted, Lease::Starting { .. }) => self.half_made += 1,
                (Life::Wanted, Lease::Live(_)) => self.whole += 1,
                (Life::Ending { .. }, _) => self.half_stopped += 1,
                _ => {}
            }
        }
    }

    pub(crate) fn repaired(&mut self, promised: usize, ended: usize) {
        self.rounds += 1;
        self.rounds_with_promises += u64::from(promised > 0);
        self.kept += promised;
        self.ended += ended;
    }

    /// Whether the rounds were worth it. Every second maker was heard before it was killed, however slow this machine
    /// is; of fifty sandboxes in a round some are always on their way, and some are their maker's own.
    pub(crate) fn is_worth_it(&self) -> Result<()> {
        let heard = self.rounds / 2;
        ensure!(self.rounds_with_promises >= heard, "too few makers had anything to promise: {self}");
        ensure!(self.half_made + self.half_stopped >= self.at_least(1), "nothing was half done: {self}");
        ensure!(self.ended >= self.at_least(1), "there was nothing to clean up: {self}");
        Ok(())
    }

    /// So many in each round whose maker was heard.
    fn at_least(&self, each: u64) -> usize {
        usize::try_from(self.rounds / 2 * each).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} half made, {} whole, {} half stopped; ",
            self.half_made, self.whole, self.half_stopped
        )?;
        write!(f, "{} promised in {} rounds and kept, ", self.kept, self.rounds_with_promises)?;
        write!(f, "{} cleaned up; seconds:", self.ended)?;
        for (phase, took) in &self.phases {
            write!(f, " {phase} {:.1}", took.as_secs_f32())?;
        }
        Ok(())
    }
}
