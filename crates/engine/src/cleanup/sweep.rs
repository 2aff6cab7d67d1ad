//! Goes through all sandboxes page by page and finds stuck ones. Ends nothing, so a dry run finds the same.

use futures_util::{StreamExt, stream};
use pinfold_lifecycle::{
    Activity, CleanupCandidate, Lease, Life, ProbeResult, SandboxId, Stuck, needs_observation, stuck,
};
use pinfold_store::{Row, SandboxFilter, StoreError, StoredSandbox};

use super::activity::{LastActivity, instance_of};
use super::{Cleaner, CleanupLayer, CleanupReason, CleanupReport, KeepReason};
use crate::engine::PAGE;

/// Sandboxes observed concurrently, within the engine's own concurrency limits.
const CONCURRENT_OBSERVATIONS: usize = 256;
/// Attempts to observe a sandbox before it counts as not measured.
const ATTEMPTS: usize = 3;

/// The verdict on one sandbox.
enum Verdict {
    Fine,
    Found(CleanupReason),
    Kept(KeepReason),
}

impl Cleaner {
    pub(super) async fn sweep(&self, report: &mut CleanupReport) -> Result<(), StoreError> {
        let layer = report.layer;
        let mut after = None;
        while let Some(page) = self.page(SandboxFilter::Present, &mut after, report).await? {
            let verdict = stream::iter(page)
                .map(|row| async move { (row.id(), self.judge_with_retries(&row, layer).await) });
            let verdict: Vec<_> = verdict.buffered(CONCURRENT_OBSERVATIONS).collect().await;
            for (id, verdict) in verdict {
                match verdict {
                    Verdict::Fine => {}
                    Verdict::Found(why) => report.find(id, why),
                    Verdict::Kept(why) => report.keep(id, why),
                }
            }
        }
        Ok(())
    }

    /// Finds every leased sandbox, except critical ones and those that need no stop.
    pub(super) async fn sweep_all(&self, report: &mut CleanupReport) -> Result<(), StoreError> {
        let mut after = None;
        while let Some(page) = self.page(SandboxFilter::Leased, &mut after, report).await? {
            for row in page {
                match keep_reason_in_emergency(&row) {
                    Some(why) => report.keep(row.id(), why),
                    None => report.find(row.id(), CleanupReason::Emergency),
                }
            }
        }
        Ok(())
    }

    /// The next page of rows. None: no more.
    pub(super) async fn page(
        &self,
        filter: SandboxFilter,
        after: &mut Option<SandboxId>,
        report: &mut CleanupReport,
    ) -> Result<Option<Vec<Row>>, StoreError> {
        let page = self.inner.store.list(filter, *after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(None) };
        *after = Some(last.id());
        report.scanned += page.len() as u64;
        Ok(Some(page))
    }

    /// Retries observations that failed: on a busy host an answer may be late once.
    async fn judge_with_retries(&self, row: &Row, layer: CleanupLayer) -> Verdict {
        let mut verdict = self.judge(row, layer).await;
        for _ in 1..ATTEMPTS {
            if !matches!(verdict, Verdict::Kept(KeepReason::NotMeasured { .. })) {
                break;
            }
            verdict = self.judge(row, layer).await;
        }
        verdict
    }

    async fn judge(&self, row: &Row, layer: CleanupLayer) -> Verdict {
        let stored = match row {
            Row::Readable(stored) => stored,
            Row::Unreadable(_) => return Verdict::Kept(KeepReason::Unreadable),
        };
        let found = match self.observe_and_judge(stored, layer).await {
            Ok(found) => found,
            Err(why) => return Verdict::Kept(KeepReason::NotMeasured { why }),
        };
        match found {
            None => Verdict::Fine,
            Some(_) if stored.spec.critical => Verdict::Kept(KeepReason::Critical),
            Some(stuck) => Verdict::Found(CleanupReason::Stuck(stuck)),
        }
    }

    /// An error: the sandbox could not be observed.
    async fn observe_and_judge(
        &self,
        stored: &StoredSandbox,
        layer: CleanupLayer,
    ) -> Result<Option<Stuck>, String> {
        if layer == CleanupLayer::ByAge
            && let Some(failed) = self.fails_probe(stored).await?
        {
            return Ok(Some(failed));
        }
        let rules = &self.inner.config.cleanup.rules;
        let unseen = self.subject(stored, Activity::Unknown);
        if !needs_observation(&unseen, rules, self.inner.clock.now()) {
            return Ok(stuck(&unseen, rules, self.inner.clock.now()));
        }
        let last = match self.last_activity(stored).await {
            LastActivity::Last(last) => last,
            LastActivity::Unknown { why } => return Err(why),
        };
        let silent = stuck(&self.subject(stored, Activity::LastSeen(last)), rules, self.inner.clock.now());
        // A silent computation is still activity.
        if silent.is_some() && self.uses_cpu(stored).await? {
            return Ok(None);
        }
        Ok(silent)
    }

    pub(super) fn subject<'a>(&self, stored: &'a StoredSandbox, activity: Activity) -> CleanupCandidate<'a> {
        CleanupCandidate {
            sandbox: &stored.sandbox,
            policy: &stored.policy,
            activity,
            monitored_since: self.began_at,
        }
    }

    /// An old instance must pass a probe, whatever its recorded health.
    async fn fails_probe(&self, stored: &StoredSandbox) -> Result<Option<Stuck>, String> {
        let sandbox = &stored.sandbox;
        let now = self.inner.clock.now();
        let is_old = now.ms_since(sandbox.created_at) >= self.inner.config.cleanup.rules.max_age_ms;
        let is_live = matches!((&sandbox.life, &sandbox.lease), (Life::Wanted, Lease::Live(_)));
        if !is_old || !is_live {
            return Ok(None);
        }
        let instance = instance_of(stored);
        match self.with_probe_timeout(stored, self.inner.probe(instance)).await {
            Some(ProbeResult::Passed) => Ok(None),
            Some(ProbeResult::Failed(_)) => Ok(Some(Stuck::Failed { since: now })),
            Some(ProbeResult::Unknown { why }) => Err(why),
            None => Err("no answer in time".into()),
        }
    }
}

fn keep_reason_in_emergency(row: &Row) -> Option<KeepReason> {
    let stored = match row {
        Row::Readable(stored) => stored,
        Row::Unreadable(_) => return Some(KeepReason::Unreadable),
    };
    match (&stored.sandbox.lease, &stored.sandbox.life) {
        _ if stored.sandbox.pooled.is_some() => Some(KeepReason::Pooled),
        (Lease::Quarantined { .. }, _) => Some(KeepReason::Quarantined),
        (_, Life::Ending { .. } | Life::Ended { .. }) => Some(KeepReason::Ending),
        (_, Life::Wanted) if stored.spec.critical => Some(KeepReason::Critical),
        (_, Life::Wanted) => None,
    }
}
