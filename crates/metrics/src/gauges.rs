//! Gauges: the current number, age and resources of sandboxes.

use std::collections::BTreeMap;

use pinfold_lifecycle::{AdmissionLimits, State, Totals};

use crate::latency::float;
use crate::word;

/// Age groups by their upper bound in minutes. Older sandboxes are in a group of their own.
pub const AGES: [(u64, &str); 5] =
    [(1, "under_1m"), (5, "under_5m"), (10, "under_10m"), (30, "under_30m"), (60, "under_60m")];
/// The group without an upper bound.
pub const OLDER: &str = "older";

const MIB: f64 = 1_048_576.0;

/// Current values. `None` means not known, which differs from zero.
#[derive(Debug, Clone, Default)]
pub struct Gauges {
    pub by_status: BTreeMap<String, u64>,
    /// Sandboxes by age group. Each is in one group only.
    pub by_age: [u64; AGES.len() + 1],
    pub active: u64,
    pub stuck: u64,
    pub orphaned: u64,
    pub totals: Totals,
    pub limits: AdmissionLimits,
    pub memory_mb_left: Option<u64>,
    pub disk_mb_left: Option<u64>,
    pub processes_left: Option<u64>,
    /// The host's total, of which the free amount above is a part.
    pub memory_mb_total: Option<u64>,
    pub disk_mb_total: Option<u64>,
    pub processes_total: Option<u64>,
    pub store_bytes: Option<u64>,
    pub nodes: Option<u64>,
}

impl Gauges {
    /// Counts a sandbox that is not proven gone.
    pub fn count(&mut self, state: State) {
        *self.by_status.entry(word(&state)).or_default() += 1;
        let is_active = matches!(state, State::Ready | State::Running | State::Unhealthy | State::Unknown);
        self.active += u64::from(is_active);
    }

    pub fn count_age(&mut self, age_ms: u64) {
        let place = AGES.iter().position(|(minutes, _)| age_ms < minutes * 60_000);
        self.by_age[place.unwrap_or(AGES.len())] += 1;
    }

    /// The allocated share of the limit. `None`: there is no limit.
    #[must_use]
    pub fn memory_share(&self) -> Option<f64> {
        share(self.totals.taken.memory_mb, self.limits.memory_mb)
    }

    #[must_use]
    pub fn disk_share(&self) -> Option<f64> {
        share(self.totals.taken.disk_mb, self.limits.disk_mb)
    }

    #[must_use]
    pub fn processes_share(&self) -> Option<f64> {
        share(self.totals.taken.processes, self.limits.processes)
    }

    #[must_use]
    pub fn sandboxes_share(&self) -> Option<f64> {
        share(self.totals.leased(), self.limits.sandboxes)
    }

    /// The values that are stored over time, by name.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<String, f64> {
        let known = [
            ("active", Some(float(self.active))),
            ("stuck", Some(float(self.stuck))),
            ("orphaned", Some(float(self.orphaned))),
            ("pooled", Some(float(self.totals.pooled))),
            ("memory_promised_bytes", Some(bytes(self.totals.taken.memory_mb))),
            ("disk_promised_bytes", Some(bytes(self.totals.taken.disk_mb))),
            ("processes_promised", Some(float(self.totals.taken.processes))),
            ("memory_left_bytes", self.memory_mb_left.map(bytes)),
            ("disk_left_bytes", self.disk_mb_left.map(bytes)),
            ("store_bytes", self.store_bytes.map(float)),
        ];
        known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

pub(crate) fn bytes(mebibytes: u64) -> f64 {
    float(mebibytes) * MIB
}

fn share(part: u64, whole: Option<u64>) -> Option<f64> {
    whole.filter(|whole| *whole > 0).map(|whole| float(part) / float(whole))
}

#[cfg(test)]
mod tests {
    use pinfold_lifecycle::Demand;

    use super::*;

    #[test]
    fn each_age_is_counted_once() {
        let mut gauges = Gauges::default();

        for minutes in [0, 1, 4, 5, 9, 10, 29, 30, 59, 60, 6_000] {
            gauges.count_age(minutes * 60_000);
        }

        assert_eq!(gauges.by_age, [1, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn no_limit_gives_no_share_and_unknown_gives_no_gauge() {
        let taken = Demand { memory_mb: 80, ..Demand::default() };
        let limits = AdmissionLimits { memory_mb: Some(100), ..AdmissionLimits::default() };
        let totals = Totals { taken, ..Totals::default() };

        let gauges = Gauges { totals, limits, ..Gauges::default() };

        assert_eq!((gauges.memory_share(), gauges.disk_share()), (Some(0.8), None));
        assert_eq!(gauges.by_name().get("memory_left_bytes"), None);
        assert_eq!(gauges.by_name()["memory_promised_bytes"], 83_886_080.0);
    }
}
