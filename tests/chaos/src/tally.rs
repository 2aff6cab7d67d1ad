//! Totals over all rounds, and the time of each phase, to show that the rounds were not empty.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pinfold_lifecycle::{Lease, Life};
use pinfold_store::StoredSandbox;

#[derive(Default)]
pub(crate) struct Tally {
    rounds: u64,
    /// Rounds with at least one promise that was read back.
    rounds_with_promises: u64,
    /// Promised sandboxes that survived.
    kept: usize,
    /// States in the store right after the kill.
    half_made: usize,
    whole: usize,
    half_stopped: usize,
    /// Unwanted instances that existed right after the kill and were cleaned up.
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

    pub(crate) fn killed(&mut self, records: &[StoredSandbox]) {
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

    /// Fails if the rounds covered too little. More than half of the makers are killed after a promise, however
    /// slow the machine; of fifty sandboxes some are always starting or stopping, and some belong to the maker.
    pub(crate) fn check_coverage(&self) -> Result<()> {
        let heard = self.rounds / 2;
        ensure!(self.rounds_with_promises >= heard, "too few makers had anything to promise: {self}");
        let one_each = usize::try_from(heard)?;
        ensure!(self.half_made + self.half_stopped >= one_each, "too little was half done: {self}");
        ensure!(self.ended >= one_each, "there was too little to clean up: {self}");
        Ok(())
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
