//! Cleanup under resource pressure: first stale data, then idle sandboxes, oldest first, until enough is free.
//! A resource that cannot be measured is reported and counts neither as scarce nor as free.

use futures_util::{StreamExt, stream};
use pinfold_lifecycle::{
    Demand, IdleSandbox, Lease, Life, Resource, ResourceLevel, Timestamp, select_evictions,
};
use pinfold_provider::Capacity;
use pinfold_store::{Row, SandboxFilter, StoreError, StoredSandbox};

use super::activity::{LastActivity, instance_of};
use super::{Cleaner, CleanupError, CleanupReason, CleanupReport, KeepReason};

/// What one sandbox frees is an estimate, so resources are measured again after each round.
const ROUNDS: usize = 5;
/// Instances observed concurrently.
const CONCURRENT_OBSERVATIONS: usize = 64;
const MIB: u64 = 1 << 20;

impl Cleaner {
    pub(super) async fn relieve(&self, report: &mut CleanupReport) -> Result<(), CleanupError> {
        self.measure(report).await?;
        if !self.is_any_scarce(report) {
            return Ok(());
        }
        report.log_start();
        let stale = self.inner.clear_stale(report.mode).await;
        (report.pruned, report.pruned_bytes) = (stale.cleaned, stale.bytes);
        if report.acts() {
            self.measure(report).await?;
        }
        for _ in 0..ROUNDS {
            let known = report.found.len();
            if self.is_any_scarce(report) {
                self.find_idle(report).await?;
            }
            if report.found.len() == known || !report.acts() {
                if known == 0 {
                    report.log_found();
                }
                break;
            }
            let mut round = CleanupReport { found: report.found.split_off(known), ..report.clone() };
            round.log_found();
            self.end_found(&mut round).await;
            report.found.append(&mut round.found);
            (report.ended, report.failed, report.kept) = (round.ended, round.failed, round.kept);
            self.measure(report).await?;
        }
        Ok(())
    }

    fn is_any_scarce(&self, report: &CleanupReport) -> bool {
        report.levels.iter().any(|level| level.exceeds(self.inner.config.cleanup.threshold))
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
        let of_limits = promised
            .into_iter()
            .filter_map(|(resource, taken, of)| Some(ResourceLevel { resource, taken, of: of? }));
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
            tracing::debug!(not_measured = ?report.not_measured, "some resources cannot be measured on this host");
        }
        Ok(())
    }

    /// Selects the idle sandboxes to end.
    async fn find_idle(&self, report: &mut CleanupReport) -> Result<(), CleanupError> {
        let mut candidates: Vec<(Timestamp, Box<StoredSandbox>)> = Vec::new();
        report.scanned = 0;
        let ended: Vec<_> = report.found.iter().map(|found| found.id).collect();
        let mut after = None;
        while let Some(page) = self.page(SandboxFilter::Present, &mut after, report).await? {
            for row in page {
                let Row::Readable(stored) = row else { continue };
                let id = stored.sandbox.id;
                if !is_idle(&stored) || ended.contains(&id) {
                    continue;
                }
                if !stored.spec.critical {
                    candidates.push((stored.sandbox.created_at, stored));
                } else if report.kept.iter().all(|kept| kept.id != id) {
                    report.keep(id, KeepReason::Critical);
                }
            }
        }
        candidates.sort_by_key(|(created_at, stored)| (*created_at, stored.sandbox.id));
        let looks = stream::iter(candidates).map(|(_, stored)| async move { self.idle(&stored).await });
        let idle: Vec<IdleSandbox> =
            looks.buffered(CONCURRENT_OBSERVATIONS).filter_map(std::future::ready).collect().await;
        for id in select_evictions(&report.levels, &idle, self.inner.config.cleanup.threshold) {
            report.find(id, CleanupReason::Idle);
        }
        Ok(())
    }

    /// None: recently used, or its activity is unknown.
    async fn idle(&self, stored: &StoredSandbox) -> Option<IdleSandbox> {
        let LastActivity::Last(last) = self.last_activity(stored).await else { return None };
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
        if let Some(Ok(used)) =
            self.with_probe_timeout(stored, self.inner.provider.usage(instance_of(stored))).await
        {
            let measured = [
                (Resource::HostMemory, used.memory_bytes.map(|bytes| bytes / MIB)),
                (Resource::HostDisk, used.disk_bytes.map(|bytes| bytes / MIB)),
                (Resource::HostProcesses, used.processes),
            ];
            frees.extend(measured.into_iter().filter_map(|(resource, freed)| Some((resource, freed?))));
        }
        Some(IdleSandbox { id: stored.sandbox.id, frees })
    }
}

fn is_idle(stored: &StoredSandbox) -> bool {
    let sandbox = &stored.sandbox;
    let is_live = matches!((&sandbox.life, &sandbox.lease), (Life::Wanted, Lease::Live(_)));
    is_live && sandbox.executions.is_empty() && sandbox.pooled.is_none()
}

fn of_host(capacity: &Capacity) -> [(Resource, Option<ResourceLevel>); 3] {
    let level = |resource, left: Option<u64>, of: Option<u64>| {
        let level =
            left.zip(of).map(|(left, of)| ResourceLevel { resource, taken: of.saturating_sub(left), of });
        (resource, level)
    };
    [
        level(Resource::HostMemory, capacity.memory_mb_left, capacity.memory_mb_total),
        level(Resource::HostDisk, capacity.disk_mb_left, capacity.disk_mb_total),
        level(Resource::HostProcesses, capacity.processes_left, capacity.processes_total),
    ]
}
