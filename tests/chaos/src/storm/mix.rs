//! Which faults there were in all rounds, how often they held and how long they took.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::fault::Fault;

#[derive(Default)]
pub(crate) struct Mix {
    of: BTreeMap<Fault, Share>,
}

#[derive(Default, Clone, Copy)]
struct Share {
    rounds: u32,
    held: u32,
    took: Duration,
    longest: Duration,
}

impl Mix {
    pub(crate) fn add(&mut self, fault: Fault, held: bool, took: Duration) {
        let share = self.of.entry(fault).or_default();
        share.rounds += 1;
        share.held += u32::from(held);
        share.took += took;
        share.longest = share.longest.max(took);
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<22} {:>6} {:>6} {:>8} {:>8}", "fault", "rounds", "held", "mean s", "most s")?;
        for (fault, Share { rounds, held, took, longest }) in &self.of {
            let mean = took.as_secs_f32() / f32::from(u16::try_from(*rounds).unwrap_or(u16::MAX).max(1));
            let name = fault.name();
            writeln!(f, "{name:<22} {rounds:>6} {held:>6} {mean:>8.1} {:>8.1}", longest.as_secs_f32())?;
        }
        let rounds: u32 = self.of.values().map(|share| share.rounds).sum();
        let held: u32 = self.of.values().map(|share| share.held).sum();
        write!(f, "{held} of {rounds} rounds held, ")
    }
}
