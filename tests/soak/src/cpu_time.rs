//! The machine's CPU load, from `/proc/stat`.

use anyhow::{Context, Result};

/// Ticks of all CPUs since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Processors {
    busy: u64,
    all: u64,
}

impl Processors {
    pub(crate) fn read() -> Result<Self> {
        let text = std::fs::read_to_string("/proc/stat").context("could not read `/proc/stat`")?;
        Self::parse(&text).context("could not parse `/proc/stat`")
    }

    /// The first line has user, nice, system, idle, iowait, irq, softirq, steal, and then guest times, which user
    /// already includes.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let rests = ticks.get(3)? + ticks.get(4)?;
        let all = ticks.iter().sum::<u64>();
        Some(Self { busy: all - rests, all })
    }

    /// The busy fraction of the time since then.
    pub(crate) fn busy_since(self, before: Self) -> f64 {
        let (busy, all) = (self.busy.saturating_sub(before.busy), self.all.saturating_sub(before.all));
        if all == 0 { 0.0 } else { as_float(busy) / as_float(all) }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share, whose last digits are not needed")]
fn as_float(ticks: u64) -> f64 {
    ticks as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iowait_counts_as_idle_and_guest_time_once() {
        let before = Processors::parse("cpu  100 0 0 0 0 0 0 0 100 0\ncpu0 1 1").unwrap();
        let after = Processors::parse("cpu  110 5 5 70 10 0 0 0 110 0\n").unwrap();

        assert_eq!(after.busy_since(before), 0.2);
    }

    #[test]
    fn load_without_elapsed_ticks_is_zero() {
        let now = Processors::parse("cpu  1 2 3 4 5 6 7 8 9 10\n").unwrap();

        assert_eq!(now.busy_since(now), 0.0);
        assert_eq!(Processors::parse("intr 1 2"), None);
    }

    #[test]
    fn proc_stat_of_this_machine_is_parsed() {
        assert!(Processors::read().unwrap().all > 0);
    }
}
