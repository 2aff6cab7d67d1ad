//! Goes through all sandboxes, page by page to the end, and finds those that are stuck. Nothing is ended here, so a dry
//! run finds the same.

use futures_util::{StreamExt, stream};
use pinfold_lifecycle::{Activity, Lease, Life, Probed, SandboxId, Stuck, Subject, is_told_by_a_look, stuck};
use pinfold_store::{Filter, Row, StoreError, Stored};

use super::activity::{Looked, body_of};
use super::{Cleaner, CleanupReport, Layer, Spared, Why};
use crate::engine::PAGE;

/// So many are looked at side by side; the engine's own bound on questions holds besides.
const LOOKS: usize = 256;
/// So often somebody tries to look at one before it counts as not measured.
const TRIES: usize = 3;

/// What becomes of one.
enum Judged {
    Fine,
    Found(Why),
    Kept(Spared),
}

impl Cleaner {
    pub(super) async fn sweep(&self, report: &mut CleanupReport) -> Result<(), StoreError> {
        let layer = report.layer;
        let mut after = None;
        while let Some(page) = self.page(Filter::Present, &mut after, report).await? {
            let judged = stream::iter(page)
                .map(|row| async move { (row.id(), self.judge_patiently(&row, layer).await) });
            let judged: Vec<_> = judged.buffered(LOOKS).collect().await;
            for (id, judged) in judged {
                match judged {
                    Judged::Fine => {}
                    Judged::Found(why) => report.find(id, why),
                    Judged::Kept(why) => report.keep(id, why),
                }
            }
        }
        Ok(())
    }

    /// Everything whose body is not proven gone, but for what is critical or needs no end.
    pub(super) async fn sweep_all(&self, report: &mut CleanupReport) -> Result<(), StoreError> {
        let mut after = None;
        while let Some(page) = self.page(Filter::Leased, &mut after, report).await? {
            for row in page {
                match spared_in_emergency(&row) {
                    Some(why) => report.keep(row.id(), why),
                    None => report.find(row.id(), Why::Emergency),
                }
            }
        }
        Ok(())
    }

    /// The next page. None: that was the last one.
    pub(super) async fn page(
        &self,
        filter: Filter,
        after: &mut Option<SandboxId>,
        report: &mut CleanupReport,
    ) -> Result<Option<Vec<Row>>, StoreError> {
        let page = self.inner.store.list(filter, *after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(None) };
        *after = Some(last.id());
        report.scanned += page.len() as u64;
        Ok(Some(page))
    }

    /// On a busy host a body may answer too late once, and in time after that.
    async fn judge_patiently(&self, row: &Row, layer: Layer) -> Judged {
        let mut judged = self.judge(row, layer).await;
        for _ in 1..TRIES {
            if !matches!(judged, Judged::Kept(Spared::NotMeasured { .. })) {
                break;
            }
            judged = self.judge(row, layer).await;
        }
        judged
    }

    async fn judge(&self, row: &Row, layer: Layer) -> Judged {
        let stored = match row {
            Row::Readable(stored) => stored,
            Row::Unreadable(_) => return Judged::Kept(Spared::Unreadable),
        };
        let found = match self.look_and_judge(stored, layer).await {
            Ok(found) => found,
            Err(why) => return Judged::Kept(Spared::NotMeasured { why }),
        };
        match found {
            None => Judged::Fine,
            Some(_) if stored.spec.critical => Judged::Kept(Spared::Critical),
            Some(stuck) => Judged::Found(Why::Stuck(stuck)),
        }
    }

    /// An error: nobody could look.
    async fn look_and_judge(&self, stored: &Stored, layer: Layer) -> Result<Option<Stuck>, String> {
        if layer == Layer::ByAge
            && let Some(failed) = self.fails_when_asked(stored).await?
        {
            return Ok(Some(failed));
        }
        let rules = &self.inner.config.cleanup.rules;
        let unseen = self.subject(stored, Activity::Unknown);
        if !is_told_by_a_look(&unseen, rules, self.inner.clock.now()) {
            return Ok(stuck(&unseen, rules, self.inner.clock.now()));
        }
        let last = match self.last_sign(stored).await {
            Looked::Last(last) => last,
            Looked::Blind { why } => return Err(why),
        };
        let silent = stuck(&self.subject(stored, Activity::LastSeen(last)), rules, self.inner.clock.now());
        // Whoever computes says nothing for a long time, and is at work all the same.
        if silent.is_some() && self.uses_processor(stored).await? {
            return Ok(None);
        }
        Ok(silent)
    }

    pub(super) fn subject<'a>(&self, stored: &'a Stored, activity: Activity) -> Subject<'a> {
        Subject { sandbox: &stored.sandbox, policy: &stored.policy, activity, watched_since: self.began_at }
    }

    /// An old body has to work, whatever is recorded of its health.
    async fn fails_when_asked(&self, stored: &Stored) -> Result<Option<Stuck>, String> {
        let sandbox = &stored.sandbox;
        let now = self.inner.clock.now();
        let is_old = now.ms_since(sandbox.created_at) >= self.inner.config.cleanup.rules.max_age_ms;
        let is_live = matches!((&sandbox.life, &sandbox.lease), (Life::Wanted, Lease::Live(_)));
        if !is_old || !is_live {
            return Ok(None);
        }
        let body = body_of(stored);
        match self.in_time(stored, self.inner.provider.probe(body)).await {
            Some(Probed::Passed) => Ok(None),
            Some(Probed::Failed(_)) => Ok(Some(Stuck::Failed { since: now })),
            Some(Probed::Unknown { why }) => Err(why),
            None => Err("it does not answer in time".into()),
        }
    }
}

fn spared_in_emergency(row: &Row) -> Option<Spared> {
    let stored = match row {
        Row::Readable(stored) => stored,
        Row::Unreadable(_) => return Some(Spared::Unreadable),
    };
    match (&stored.sandbox.lease, &stored.sandbox.life) {
        _ if stored.sandbox.pooled.is_some() => Some(Spared::Pooled),
        (Lease::Quarantined { .. }, _) => Some(Spared::Quarantined),
        (_, Life::Ending { .. } | Life::Ended { .. }) => Some(Spared::Ending),
        (_, Life::Wanted) if stored.spec.critical => Some(Spared::Critical),
        (_, Life::Wanted) => None,
    }
}
