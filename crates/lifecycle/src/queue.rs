//! Admission order of queued requests. Requests are admitted first come, first served, among those that fit. A request
//! that does not fit may be overtaken at most [`MAX_OVERTAKES`] times by requests that use the resource it lacks;
//! after that the resource is reserved for it. The request's own deadline bounds how long it can block others.

use std::collections::BTreeMap;

use crate::{AdmissionLimits, AdmissionRefusal, Demand, Quota, QuotaKey, Totals, admit};

/// How often a queued request may be overtaken by requests that use a resource it lacks.
pub const MAX_OVERTAKES: u32 = 8;

/// Resources and quotas that are already allocated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllocatedResources {
    pub totals: Totals,
    /// Sandboxes per quota key, for the keys that occur in the queue.
    pub by_key: BTreeMap<QuotaKey, u64>,
}

/// One request in the queue.
#[derive(Debug, Clone, Copy)]
pub struct QueuedRequest<'a> {
    pub demand: Demand,
    pub quotas: &'a [Quota],
    /// How often it was overtaken by a request that used a resource it lacks.
    pub overtaken: u32,
}

/// The decision about one queued request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmissionDecision {
    /// It is admitted. `overtakes`: positions of earlier requests that lack a resource it uses.
    Fits {
        overtakes: Vec<usize>,
    },
    Waits(WaitReason),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitReason {
    Shortage(AdmissionRefusal),
    /// It would fit, but the capacity is reserved for the earlier request at this position.
    ReservedFor(usize),
}

/// A resource or quota that can be exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitedResource<'a> {
    Sandboxes,
    Memory,
    Disk,
    Processes,
    Quota(&'a QuotaKey),
}

/// Decides about every queued request, in queue order.
#[must_use]
pub fn decide_admissions(
    mut allocated: AllocatedResources,
    limits: &AdmissionLimits,
    waiting: &[QueuedRequest<'_>],
) -> Vec<AdmissionDecision> {
    let mut lacking: Vec<(usize, Vec<LimitedResource<'_>>, u32)> = Vec::new();
    let mut decisions = Vec::new();
    for (position, request) in waiting.iter().enumerate() {
        if let Err(scarcity) = allocated.fits(request, limits) {
            lacking.push((position, allocated.shortages(request, limits), request.overtaken));
            decisions.push(AdmissionDecision::Waits(WaitReason::Shortage(scarcity)));
            continue;
        }
        let uses_what_it_lacks = |(_, resources, _): &&mut (usize, Vec<LimitedResource<'_>>, u32)| {
            resources.iter().any(|resource| request.consumes(*resource))
        };
        let mut harmed: Vec<_> = lacking.iter_mut().filter(uses_what_it_lacks).collect();
        if let Some((position, ..)) = harmed.iter().find(|(_, _, overtaken)| *overtaken >= MAX_OVERTAKES) {
            decisions.push(AdmissionDecision::Waits(WaitReason::ReservedFor(*position)));
            continue;
        }
        let mut overtakes = Vec::new();
        for (position, _, overtaken) in &mut harmed {
            *overtaken += 1;
            overtakes.push(*position);
        }
        allocated.take(request);
        decisions.push(AdmissionDecision::Fits { overtakes });
    }
    decisions
}

/// Whether the request would fit if nothing else were allocated.
pub fn could_ever_fit(
    demand: Demand,
    quotas: &[Quota],
    limits: &AdmissionLimits,
) -> Result<(), AdmissionRefusal> {
    AllocatedResources::default().fits(&QueuedRequest { demand, quotas, overtaken: 0 }, limits)
}

impl AllocatedResources {
    fn fits(&self, request: &QueuedRequest<'_>, limits: &AdmissionLimits) -> Result<(), AdmissionRefusal> {
        admit(&self.totals, &request.demand, limits)?;
        request.quotas.iter().try_for_each(|quota| quota.admit(self.of(&quota.key)))
    }

    fn of(&self, key: &QuotaKey) -> u64 {
        self.by_key.get(key).copied().unwrap_or(0)
    }

    /// Every resource and quota that the request lacks.
    fn shortages<'a>(
        &self,
        request: &QueuedRequest<'a>,
        limits: &AdmissionLimits,
    ) -> Vec<LimitedResource<'a>> {
        let none = AdmissionLimits::default();
        let each = [
            (LimitedResource::Sandboxes, AdmissionLimits { sandboxes: limits.sandboxes, ..none }),
            (LimitedResource::Memory, AdmissionLimits { memory_mb: limits.memory_mb, ..none }),
            (LimitedResource::Disk, AdmissionLimits { disk_mb: limits.disk_mb, ..none }),
            (LimitedResource::Processes, AdmissionLimits { processes: limits.processes, ..none }),
        ];
        let of_all =
            each.into_iter().filter(|(_, limits)| admit(&self.totals, &request.demand, limits).is_err());
        let of_quotas = request.quotas.iter().filter(|quota| quota.admit(self.of(&quota.key)).is_err());
        of_all
            .map(|(resource, _)| resource)
            .chain(of_quotas.map(|quota| LimitedResource::Quota(&quota.key)))
            .collect()
    }

    fn take(&mut self, request: &QueuedRequest<'_>) {
        let Demand { memory_mb, disk_mb, processes } = request.demand;
        let (created, taken) = (&mut self.totals.created, &mut self.totals.taken);
        *created = created.saturating_add(1);
        taken.memory_mb = taken.memory_mb.saturating_add(memory_mb);
        taken.disk_mb = taken.disk_mb.saturating_add(disk_mb);
        taken.processes = taken.processes.saturating_add(processes);
        for quota in request.quotas {
            *self.by_key.entry(quota.key.clone()).or_default() += 1;
        }
    }
}

impl QueuedRequest<'_> {
    fn consumes(&self, resource: LimitedResource<'_>) -> bool {
        match resource {
            LimitedResource::Sandboxes => true,
            LimitedResource::Memory => self.demand.memory_mb > 0,
            LimitedResource::Disk => self.demand.disk_mb > 0,
            LimitedResource::Processes => self.demand.processes > 0,
            LimitedResource::Quota(key) => self.quotas.iter().any(|quota| quota.key == *key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TokenId;

    const LIMITS: AdmissionLimits =
        AdmissionLimits { sandboxes: Some(10), memory_mb: Some(100), disk_mb: None, processes: None };

    fn wants(memory_mb: u64) -> QueuedRequest<'static> {
        QueuedRequest { demand: Demand { memory_mb, ..Demand::default() }, quotas: &[], overtaken: 0 }
    }

    fn taken(memory_mb: u64) -> AllocatedResources {
        let totals = Totals { taken: Demand { memory_mb, ..Demand::default() }, ..Totals::default() };
        AllocatedResources { totals, ..AllocatedResources::default() }
    }

    fn fits(turnout: &AdmissionDecision) -> bool {
        matches!(turnout, AdmissionDecision::Fits { .. })
    }

    #[test]
    fn queued_requests_are_admitted_in_order_while_they_fit() {
        let found = decide_admissions(taken(0), &LIMITS, &[wants(60), wants(40), wants(1)]);

        assert_eq!(found.iter().map(fits).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(
            found[2],
            AdmissionDecision::Waits(WaitReason::Shortage(AdmissionRefusal::Memory {
                taken: 100,
                requested: 1,
                limit: 100
            }))
        );
    }

    #[test]
    fn small_request_overtakes_a_large_one_that_does_not_fit_and_is_counted() {
        let found = decide_admissions(taken(50), &LIMITS, &[wants(60), wants(20)]);

        assert!(!fits(&found[0]));
        assert_eq!(found[1], AdmissionDecision::Fits { overtakes: vec![0] });
    }

    #[test]
    fn request_overtaken_too_often_has_capacity_reserved() {
        let large = QueuedRequest { overtaken: MAX_OVERTAKES, ..wants(60) };

        let found = decide_admissions(taken(50), &LIMITS, &[large, wants(20)]);

        assert_eq!(found[1], AdmissionDecision::Waits(WaitReason::ReservedFor(0)));
    }

    #[test]
    fn overtakes_within_one_round_are_limited_too() {
        let large = QueuedRequest { overtaken: MAX_OVERTAKES - 2, ..wants(60) };
        let small = wants(1);

        let found = decide_admissions(taken(50), &LIMITS, &[large, small, small, small]);

        assert_eq!(found.iter().map(fits).collect::<Vec<_>>(), [false, true, true, false]);
    }

    #[test]
    fn request_at_its_own_quota_does_not_block_others() {
        let key = |id| QuotaKey::Token(TokenId(id));
        let (own, others) = ([Quota { key: key(1), limit: 2 }], [Quota { key: key(2), limit: 2 }]);
        let waits = QueuedRequest { quotas: &own, overtaken: MAX_OVERTAKES, ..wants(10) };
        let comes = QueuedRequest { quotas: &others, ..wants(10) };
        let taken = AllocatedResources { by_key: BTreeMap::from([(key(1), 2)]), ..taken(0) };

        let found = decide_admissions(taken, &LIMITS, &[waits, comes]);

        assert_eq!(
            found[0],
            AdmissionDecision::Waits(WaitReason::Shortage(AdmissionRefusal::Token {
                token: TokenId(1),
                taken: 2,
                limit: 2
            }))
        );
        assert_eq!(found[1], AdmissionDecision::Fits { overtakes: vec![] });
    }

    #[test]
    fn requests_admitted_earlier_count_against_a_quota() {
        let quotas = [Quota { key: QuotaKey::Token(TokenId(1)), limit: 1 }];
        let one = QueuedRequest { quotas: &quotas, ..wants(1) };

        let found = decide_admissions(AllocatedResources::default(), &LIMITS, &[one, one]);

        assert_eq!(found.iter().map(fits).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn admission_uses_all_capacity() {
        let mut chance = 7_u64;
        for _ in 0..2_000 {
            let mut next = |below: u64| {
                chance =
                    chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (chance >> 33) % below
            };
            let already = next(100);
            let waiting: Vec<_> = (0..next(9)).map(|_| wants(next(60) + 1)).collect();

            let found = decide_admissions(taken(already), &LIMITS, &waiting);

            let let_in = waiting.iter().zip(&found).filter(|(_, found)| fits(found));
            let in_all: u64 = already + let_in.clone().map(|(one, _)| one.demand.memory_mb).sum::<u64>();
            assert!(in_all <= 100 && let_in.count() <= 10);
            // No request has reached the overtaking limit here, so a request waits only if it does not fit into the
            // remaining capacity.
            for (one, found) in waiting.iter().zip(&found) {
                assert!(fits(found) || in_all + one.demand.memory_mb > 100, "{waiting:?} {found:?}");
            }
        }
    }

    #[test]
    fn request_larger_than_the_limits_never_fits() {
        assert!(could_ever_fit(wants(100).demand, &[], &LIMITS).is_ok());
        assert!(could_ever_fit(wants(101).demand, &[], &LIMITS).is_err());
    }
}
