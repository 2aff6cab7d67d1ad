//! Who of those that wait for room is next. First come, first served among those that fit; whoever does not fit yet may
//! be overtaken, but only so often at its own expense, and from then on what it is short of is kept for it. Its
//! deadline bounds how long that may hold up the others.

use std::collections::BTreeMap;

use crate::{AdmissionLimits, Demand, Quota, QuotaKey, Scarcity, Totals, admit};

/// So often one that waits is overtaken by others who take of what it is short of.
pub const MOST_OVERTAKINGS: u32 = 8;

/// What is taken already.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Taken {
    pub totals: Totals,
    /// By the keys of the quotas that somebody here has to keep.
    pub by_key: BTreeMap<QuotaKey, u64>,
}

/// What one of them wants.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    pub demand: Demand,
    pub quotas: &'a [Quota],
    /// How often it was overtaken at its own expense.
    pub passed: u32,
}

/// How it stands for one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turnout {
    /// There is room for it, after all before it who fit. It overtakes these.
    Fits {
        overtakes: Vec<usize>,
    },
    Waits(Held),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    Short(Scarcity),
    /// It would fit, and the room is kept for this one before it.
    KeptFor(usize),
}

/// What can be short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thing<'a> {
    Sandboxes,
    Memory,
    Disk,
    Processes,
    Of(&'a QuotaKey),
}

/// How it stands for each of them, in their order.
#[must_use]
pub fn turnout(mut taken: Taken, limits: &AdmissionLimits, waiting: &[Claimant<'_>]) -> Vec<Turnout> {
    let mut short: Vec<(usize, Vec<Thing<'_>>, u32)> = Vec::new();
    let mut found = Vec::new();
    for (place, claimant) in waiting.iter().enumerate() {
        if let Err(scarcity) = taken.fits(claimant, limits) {
            short.push((place, taken.shortages(claimant, limits), claimant.passed));
            found.push(Turnout::Waits(Held::Short(scarcity)));
            continue;
        }
        let at_their_expense = |(_, things, _): &&mut (usize, Vec<Thing<'_>>, u32)| {
            things.iter().any(|thing| claimant.takes_of(*thing))
        };
        let mut harmed: Vec<_> = short.iter_mut().filter(at_their_expense).collect();
        if let Some((place, ..)) = harmed.iter().find(|(_, _, passed)| *passed >= MOST_OVERTAKINGS) {
            found.push(Turnout::Waits(Held::KeptFor(*place)));
            continue;
        }
        let mut overtakes = Vec::new();
        for (place, _, passed) in &mut harmed {
            *passed += 1;
            overtakes.push(*place);
        }
        taken.take(claimant);
        found.push(Turnout::Fits { overtakes });
    }
    found
}

/// Whether there is room for it where nobody else is.
pub fn could_ever_fit(demand: Demand, quotas: &[Quota], limits: &AdmissionLimits) -> Result<(), Scarcity> {
    Taken::default().fits(&Claimant { demand, quotas, passed: 0 }, limits)
}

impl Taken {
    fn fits(&self, claimant: &Claimant<'_>, limits: &AdmissionLimits) -> Result<(), Scarcity> {
        admit(&self.totals, &claimant.demand, limits)?;
        claimant.quotas.iter().try_for_each(|quota| quota.admit(self.of(&quota.key)))
    }

    fn of(&self, key: &QuotaKey) -> u64 {
        self.by_key.get(key).copied().unwrap_or(0)
    }

    /// Everything that it has to wait for.
    fn shortages<'a>(&self, claimant: &Claimant<'a>, limits: &AdmissionLimits) -> Vec<Thing<'a>> {
        let none = AdmissionLimits::default();
        let each = [
            (Thing::Sandboxes, AdmissionLimits { sandboxes: limits.sandboxes, ..none }),
            (Thing::Memory, AdmissionLimits { memory_mb: limits.memory_mb, ..none }),
            (Thing::Disk, AdmissionLimits { disk_mb: limits.disk_mb, ..none }),
            (Thing::Processes, AdmissionLimits { processes: limits.processes, ..none }),
        ];
        let of_all =
            each.into_iter().filter(|(_, limits)| admit(&self.totals, &claimant.demand, limits).is_err());
        let of_quotas = claimant.quotas.iter().filter(|quota| quota.admit(self.of(&quota.key)).is_err());
        of_all.map(|(thing, _)| thing).chain(of_quotas.map(|quota| Thing::Of(&quota.key))).collect()
    }

    fn take(&mut self, claimant: &Claimant<'_>) {
        let Demand { memory_mb, disk_mb, processes } = claimant.demand;
        let (created, taken) = (&mut self.totals.created, &mut self.totals.taken);
        *created = created.saturating_add(1);
        taken.memory_mb = taken.memory_mb.saturating_add(memory_mb);
        taken.disk_mb = taken.disk_mb.saturating_add(disk_mb);
        taken.processes = taken.processes.saturating_add(processes);
        for quota in claimant.quotas {
            *self.by_key.entry(quota.key.clone()).or_default() += 1;
        }
    }
}

impl Claimant<'_> {
    fn takes_of(&self, thing: Thing<'_>) -> bool {
        match thing {
            Thing::Sandboxes => true,
            Thing::Memory => self.demand.memory_mb > 0,
            Thing::Disk => self.demand.disk_mb > 0,
            Thing::Processes => self.demand.processes > 0,
            Thing::Of(key) => self.quotas.iter().any(|quota| quota.key == *key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TokenId;

    const LIMITS: AdmissionLimits =
        AdmissionLimits { sandboxes: Some(10), memory_mb: Some(100), disk_mb: None, processes: None };

    fn wants(memory_mb: u64) -> Claimant<'static> {
        Claimant { demand: Demand { memory_mb, ..Demand::default() }, quotas: &[], passed: 0 }
    }

    fn taken(memory_mb: u64) -> Taken {
        let totals = Totals { taken: Demand { memory_mb, ..Demand::default() }, ..Totals::default() };
        Taken { totals, ..Taken::default() }
    }

    fn fits(turnout: &Turnout) -> bool {
        matches!(turnout, Turnout::Fits { .. })
    }

    #[test]
    fn first_come_first_served_as_long_as_they_fit() {
        let found = turnout(taken(0), &LIMITS, &[wants(60), wants(40), wants(1)]);

        assert_eq!(found.iter().map(fits).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(
            found[2],
            Turnout::Waits(Held::Short(Scarcity::Memory { taken: 100, asked: 1, limit: 100 }))
        );
    }

    #[test]
    fn a_small_one_overtakes_a_large_one_that_does_not_fit_yet_and_that_is_counted() {
        let found = turnout(taken(50), &LIMITS, &[wants(60), wants(20)]);

        assert!(!fits(&found[0]));
        assert_eq!(found[1], Turnout::Fits { overtakes: vec![0] });
    }

    #[test]
    fn one_that_was_overtaken_often_enough_has_the_room_kept_for_it() {
        let large = Claimant { passed: MOST_OVERTAKINGS, ..wants(60) };

        let found = turnout(taken(50), &LIMITS, &[large, wants(20)]);

        assert_eq!(found[1], Turnout::Waits(Held::KeptFor(0)));
    }

    #[test]
    fn even_at_once_no_more_overtake_than_may() {
        let large = Claimant { passed: MOST_OVERTAKINGS - 2, ..wants(60) };
        let small = wants(1);

        let found = turnout(taken(50), &LIMITS, &[large, small, small, small]);

        assert_eq!(found.iter().map(fits).collect::<Vec<_>>(), [false, true, true, false]);
    }

    #[test]
    fn who_is_at_its_own_quota_holds_up_nobody_else() {
        let key = |id| QuotaKey::Token(TokenId(id));
        let (own, others) = ([Quota { key: key(1), limit: 2 }], [Quota { key: key(2), limit: 2 }]);
        let waits = Claimant { quotas: &own, passed: MOST_OVERTAKINGS, ..wants(10) };
        let comes = Claimant { quotas: &others, ..wants(10) };
        let taken = Taken { by_key: BTreeMap::from([(key(1), 2)]), ..taken(0) };

        let found = turnout(taken, &LIMITS, &[waits, comes]);

        assert_eq!(
            found[0],
            Turnout::Waits(Held::Short(Scarcity::Token { token: TokenId(1), taken: 2, limit: 2 }))
        );
        assert_eq!(found[1], Turnout::Fits { overtakes: vec![] });
    }

    #[test]
    fn a_quota_is_taken_by_those_who_are_admitted_before() {
        let quotas = [Quota { key: QuotaKey::Token(TokenId(1)), limit: 1 }];
        let one = Claimant { quotas: &quotas, ..wants(1) };

        let found = turnout(Taken::default(), &LIMITS, &[one, one]);

        assert_eq!(found.iter().map(fits).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn never_fewer_are_let_in_than_there_is_room_for() {
        let mut chance = 7_u64;
        for _ in 0..2_000 {
            let mut next = |below: u64| {
                chance =
                    chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (chance >> 33) % below
            };
            let already = next(100);
            let waiting: Vec<_> = (0..next(9)).map(|_| wants(next(60) + 1)).collect();

            let found = turnout(taken(already), &LIMITS, &waiting);

            let let_in = waiting.iter().zip(&found).filter(|(_, found)| fits(found));
            let in_all: u64 = already + let_in.clone().map(|(one, _)| one.demand.memory_mb).sum::<u64>();
            assert!(in_all <= 100 && let_in.count() <= 10);
            // Nobody has been overtaken often enough to be waited for: whoever waits does not fit into what is left.
            for (one, found) in waiting.iter().zip(&found) {
                assert!(fits(found) || in_all + one.demand.memory_mb > 100, "{waiting:?} {found:?}");
            }
        }
    }

    #[test]
    fn what_is_larger_than_everything_never_fits() {
        assert!(could_ever_fit(wants(100).demand, &[], &LIMITS).is_ok());
        assert!(could_ever_fit(wants(101).demand, &[], &LIMITS).is_err());
    }
}
