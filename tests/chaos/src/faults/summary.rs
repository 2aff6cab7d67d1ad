//! Counts per fault: rounds, injections, passes and times.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::fault::Fault;
use super::injection::Injection;

#[derive(Default)]
pub(crate) struct Summary {
    of: BTreeMap<Fault, FaultCounts>,
}

#[derive(Default, Clone, Copy)]
struct FaultCounts {
    rounds: u32,
    /// Rounds in which it was injected, and rounds on a host that cannot inject it.
    injected: u32,
    unsupported: u32,
    held: u32,
    took: Duration,
    longest: Duration,
}

/// From this many rounds on, a fault that was never injected fails the run.
const MANY_ROUNDS: u32 = 30;
/// One miss may be chance, for example a sandbox that ended just then. Missing in every one of two or more rounds
/// is not, since each round tries one sandbox after another for seconds.
const DRAWN_OFTEN: u32 = 2;

impl Summary {
    pub(crate) fn add(&mut self, fault: Fault, injection: Option<&Injection>, held: bool, took: Duration) {
        let counts = self.of.entry(fault).or_default();
        counts.rounds += 1;
        counts.injected += u32::from(matches!(injection, Some(Injection::Injected(_))));
        counts.unsupported += u32::from(matches!(injection, Some(Injection::Unsupported(_))));
        counts.held += u32::from(held);
        counts.took += took;
        counts.longest = counts.longest.max(took);
    }

    /// Faults that were never injected although there were many rounds.
    pub(crate) fn never_injected(&self) -> Vec<Fault> {
        if self.rounds() < MANY_ROUNDS {
            return Vec::new();
        }
        let is_empty =
            |counts: &FaultCounts| counts.injected == 0 && counts.rounds - counts.unsupported >= DRAWN_OFTEN;
        self.of.iter().filter(|(_, counts)| is_empty(counts)).map(|(fault, _)| *fault).collect()
    }

    fn rounds(&self) -> u32 {
        self.of.values().map(|counts| counts.rounds).sum()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["rounds", "hit", "passed", "mean s", "most s"].map(|head| format!("{head:>8}"));
        writeln!(f, "{:<22}{}", "fault", head.concat())?;
        for (fault, FaultCounts { rounds, injected, held, took, longest, .. }) in &self.of {
            let mean = took.as_secs_f32() / f32::from(u16::try_from(*rounds).unwrap_or(u16::MAX).max(1));
            let (name, most) = (fault.name(), longest.as_secs_f32());
            writeln!(f, "{name:<22}{rounds:>8}{injected:>8}{held:>8}{mean:>8.1}{most:>8.1}")?;
        }
        let held: u32 = self.of.values().map(|counts| counts.held).sum();
        write!(f, "{held} of {} rounds passed, ", self.rounds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(summary: &mut Summary, fault: Fault, count: u32, injection: fn(String) -> Injection) {
        for _ in 0..count {
            summary.add(fault, Some(&injection(String::new())), true, Duration::ZERO);
        }
    }

    #[test]
    fn fault_never_injected_in_many_rounds_is_reported() {
        let mut summary = Summary::default();
        rounds(&mut summary, Fault::ServerKilled, 26, Injection::Injected);
        rounds(&mut summary, Fault::MountLost, 2, Injection::Missed);
        rounds(&mut summary, Fault::KeeperKilled, 1, Injection::Missed);
        rounds(&mut summary, Fault::KeeperKilled, 1, Injection::Injected);

        assert_eq!(summary.never_injected(), [Fault::MountLost]);
    }

    #[test]
    fn unsupported_fault_and_fault_drawn_once_are_not_reported() {
        let mut summary = Summary::default();
        rounds(&mut summary, Fault::ServerKilled, 27, Injection::Injected);
        rounds(&mut summary, Fault::PidsExhausted, 2, Injection::Unsupported);
        rounds(&mut summary, Fault::MountLost, 1, Injection::Missed);

        assert_eq!(summary.never_injected(), []);
    }

    #[test]
    fn few_rounds_report_no_missing_fault() {
        let mut summary = Summary::default();
        rounds(&mut summary, Fault::MountLost, 2, Injection::Missed);

        assert_eq!(summary.never_injected(), []);
    }
}
