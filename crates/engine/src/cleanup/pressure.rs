//! Where something runs short: first what is past its time goes, then what does nothing, the oldest first, until
//! there is enough again. What cannot be measured is told, and taken neither for plenty nor for none.

use futures_util::{StreamExt, stream};
use pinfold_lifecycle::{Demand, Idle, Lease, Level, Life, Resource, Timestamp, relieve};
use pinfold_provider::Capacity;
use pinfold_store::{Filter, Row, StoreError, Stored};

use super::activity::{Looked, body_of};
use super::{Cleaner, CleanupError, CleanupReport, Spared, Why};

/// What one end gives back is an estimate: so often it is measured again and gone on with.
const ROUNDS: usize = 5;
/// Bodies that are asked side by side.
const LOOKS: usize = 64;
const MIB: u64 = 1 << 20;

impl Cleaner {
    pub(super) async fn relieve(&self, report: &mut CleanupReport) -> Result<(), CleanupError> {
        self.measure(report).await?;
        if !self.is_something_scarce(report) {
            return Ok(());
        }
        report.tell_beginning();
        let stale = self.inner.clear_stale(report.how).await;
        (report.pruned, report.pruned_bytes) = (stale.cleaned, stale.bytes);
        if report.acts() {
            self.measure(report).await?;
        }
        for _ in 0..ROUNDS {
            let known = report.found.len();
            if self.is_something_scarce(report) {
                self.find_idle(report).await?;
            }
            if report.found.len() == known || !report.acts() {
                if known == 0 {
                    report.tell_found();
                }
                break;
            }
            let mut round = CleanupReport { found: report.found.split_off(known), ..report.clone() };
            round.tell_found();
            self.end_found(&mut round).await;
            report.found.append(&mut round.found);
            (report.ended, report.failed, report.kept) = (round.ended, round.failed, round.kept);
            self.measure(report).await?;
        }
        Ok(())
    }

    fn is_something_scarce(&self, report: &CleanupReport) -> bool {
        report.levels.iter().any(|level| level.is_scarce(self.inner.config.cleanup.threshold))
    }

    async fn measure(&self, report: &mut CleanupReport) -> Result<(), StoreError> {
        let totals = self.inner.store.totals().await?;
        let limits = &self.inner.config.admission;
        let promised = [
            (Resource::Sandboxes, totals.leased(), limits.sandboxes),
            (Resource::Memory, totals.taken.memory_mb, limits.memory_mb),
            (Resource::Disk, totals.taken.disk_mb, limits.disk_mb),
            (Resource::Processes, totals.taken.processes, limits.processes),
        ];
        let of_limits =
            promised.into_iter().filter_map(|(resource, taken, of)| Some(Level { resource, taken, of: of? }));
        report.levels = of_limits.collect();
        report.not_measured.clear();
        let capacity = self.inner.provider.capacity().await.unwrap_or_default();
        for (resource, level) in of_host(&capacity) {
            match level {
                Some(level) => report.levels.push(level),
                None => report.not_measured.push(resource),
            }
        }
        if !report.not_measured.is_empty() {
            tracing::debug!(not_measured = ?report.not_measured, "some resources cannot be measured here");
        }
        Ok(())
    }

    /// Those that have to go, of those that do nothing.
    async fn find_idle(&self, report: &mut CleanupReport) -> Result<(), CleanupError> {
        let mut candidates: Vec<(Timestamp, Box<Stored>)> = Vec::new();
        report.scanned = 0;
        let ended: Vec<_> = report.found.iter().map(|found| found.id).collect();
        let mut after = None;
        while let Some(page) = self.page(Filter::Present, &mut after, report).await? {
            for row in page {
                let Row::Readable(stored) = row else { continue };
                let id = stored.sandbox.id;
                if !has_nothing_to_do(&stored) || ended.contains(&id) {
                    continue;
                }
                if !stored.spec.critical {
                    candidates.push((stored.sandbox.created_at, stored));
                } else if report.kept.iter().all(|kept| kept.id != id) {
                    report.keep(id, Spared::Critical);
                }
            }
        }
        candidates.sort_by_key(|(created_at, stored)| (*created_at, stored.sandbox.id));
        let looks = stream::iter(candidates).map(|(_, stored)| async move { self.idle(&stored).await });
        let idle: Vec<Idle> = looks.buffered(LOOKS).filter_map(std::future::ready).collect().await;
        for id in relieve(&report.levels, &idle, self.inner.config.cleanup.threshold) {
            report.find(id, Why::Idle);
        }
        Ok(())
    }

    /// None: it was used a moment ago, or nobody can tell.
    async fn idle(&self, stored: &Stored) -> Option<Idle> {
        let Looked::Last(last) = self.last_sign(stored).await else { return None };
        if self.inner.clock.now().ms_since(last) < self.inner.config.cleanup.idle_ms {
            return None;
        }
        let Demand { memory_mb, disk_mb, processes } = stored.spec.demand();
        let mut frees = vec![
            (Resource::Sandboxes, 1),
            (Resource::Memory, memory_mb),
            (Resource::Disk, disk_mb),
            (Resource::Processes, processes),
        ];
        if let Some(Ok(used)) = self.in_time(stored, self.inner.provider.usage(body_of(stored))).await {
            let measured = [
                (Resource::HostMemory, used.memory_bytes.map(|bytes| bytes / MIB)),
                (Resource::HostDisk, used.disk_bytes.map(|bytes| bytes / MIB)),
                (Resource::HostProcesses, used.processes),
            ];
            frees.extend(measured.into_iter().filter_map(|(resource, freed)| Some((resource, freed?))));
        }
        Some(Idle { id: stored.sandbox.id, frees })
    }
}

fn has_nothing_to_do(stored: &Stored) -> bool {
    let sandbox = &stored.sandbox;
    let is_live = matches!((&sandbox.life, &sandbox.lease), (Life::Wanted, Lease::Live(_)));
    is_live && sandbox.executions.is_empty() && sandbox.pooled.is_none()
}

fn of_host(capacity: &Capacity) -> [(Resource, Option<Level>); 3] {
    let level = |resource, left: Option<u64>, of: Option<u64>| {
        let level = left.zip(of).map(|(left, of)| Level { resource, taken: of.saturating_sub(left), of });
        (resource, level)
    };
    [
        level(Resource::HostMemory, capacity.memory_mb_left, capacity.memory_mb_total),
        level(Resource::HostDisk, capacity.disk_mb_left, capacity.disk_mb_total),
        level(Resource::HostProcesses, capacity.processes_left, capacity.processes_total),
    ]
}
