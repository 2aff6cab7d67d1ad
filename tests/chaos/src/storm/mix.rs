//! Which faults there were in all rounds, how often they struck and held and how long they took.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::blow::Blow;
use super::fault::Fault;

#[derive(Default)]
pub(crate) struct Mix {
    of: BTreeMap<Fault, Share>,
}

#[derive(Default, Clone, Copy)]
struct Share {
    rounds: u32,
    /// Rounds in which it came about, and those on a host that has no means for it.
    struck: u32,
    without_means: u32,
    held: u32,
    took: Duration,
    longest: Duration,
}

/// Whoever goes through so many rounds wants to know what holds, and not to see one of them again.
const MANY_ROUNDS: u32 = 30;
/// One miss may be chance: that a sandbox ended by itself just then. All rounds of two or more are not, since each
/// tries one sandbox after another for seconds.
const DRAWN_OFTEN: u32 = 2;

impl Mix {
    pub(crate) fn add(&mut self, fault: Fault, blow: Option<&Blow>, held: bool, took: Duration) {
        let share = self.of.entry(fault).or_default();
        share.rounds += 1;
        share.struck += u32::from(matches!(blow, Some(Blow::Struck(_))));
        share.without_means += u32::from(matches!(blow, Some(Blow::NoMeans(_))));
        share.held += u32::from(held);
        share.took += took;
        share.longest = share.longest.max(took);
    }

    /// Faults of which many rounds have shown nothing.
    pub(crate) fn never_struck(&self) -> Vec<Fault> {
        if self.rounds() < MANY_ROUNDS {
            return Vec::new();
        }
        let is_empty = |share: &Share| share.struck == 0 && share.rounds - share.without_means >= DRAWN_OFTEN;
        self.of.iter().filter(|(_, share)| is_empty(share)).map(|(fault, _)| *fault).collect()
    }

    fn rounds(&self) -> u32 {
        self.of.values().map(|share| share.rounds).sum()
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["rounds", "struck", "held", "mean s", "most s"].map(|head| format!("{head:>8}"));
        writeln!(f, "{:<22}{}", "fault", head.concat())?;
        for (fault, Share { rounds, struck, held, took, longest, .. }) in &self.of {
            let mean = took.as_secs_f32() / f32::from(u16::try_from(*rounds).unwrap_or(u16::MAX).max(1));
            let (name, most) = (fault.name(), longest.as_secs_f32());
            writeln!(f, "{name:<22}{rounds:>8}{struck:>8}{held:>8}{mean:>8.1}{most:>8.1}")?;
        }
        let held: u32 = self.of.values().map(|share| share.held).sum();
        write!(f, "{held} of {} rounds held, ", self.rounds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(mix: &mut Mix, fault: Fault, count: u32, blow: fn(String) -> Blow) {
        for _ in 0..count {
            mix.add(fault, Some(&blow(String::new())), true, Duration::ZERO);
        }
    }

    #[test]
    fn a_fault_that_missed_in_all_of_its_rounds_is_named() {
        let mut mix = Mix::default();
        rounds(&mut mix, Fault::ServerKilled, 26, Blow::Struck);
        rounds(&mut mix, Fault::MountLost, 2, Blow::Missed);
        rounds(&mut mix, Fault::KeeperKilled, 1, Blow::Missed);
        rounds(&mut mix, Fault::KeeperKilled, 1, Blow::Struck);

        assert_eq!(mix.never_struck(), [Fault::MountLost]);
    }

    #[test]
    fn what_a_host_has_no_means_for_and_what_was_drawn_once_is_not_named() {
        let mut mix = Mix::default();
        rounds(&mut mix, Fault::ServerKilled, 27, Blow::Struck);
        rounds(&mut mix, Fault::PidsExhausted, 2, Blow::NoMeans);
        rounds(&mut mix, Fault::MountLost, 1, Blow::Missed);

        assert_eq!(mix.never_struck(), []);
    }

    #[test]
    fn of_few_rounds_nothing_is_asked() {
        let mut mix = Mix::default();
        rounds(&mut mix, Fault::MountLost, 2, Blow::Missed);

        assert_eq!(mix.never_struck(), []);
    }
}
