//! Ends the sandboxes that were found, with ordinary stop requests, a bounded number at a time. One that fails,
//! hangs or panics does not delay the others. One whose record is gone counts as ended. One that anyone else is already
//! ending is not counted: the commit of the stop decides which run found it.

use std::sync::Arc;

use pinfold_lifecycle::{
    Activity, CleanupCandidate, Life, Refusal, Request, SandboxId, Stuck, Timestamp, stuck,
};
use pinfold_store::{Row, StoredSandbox};
use tokio::task::JoinSet;

use super::{
    Cleaner, CleanupReason, CleanupReport, EndedSandbox, FailedSandbox, FoundSandbox, KeepReason, error_chain,
};
use crate::apply::Input;
use crate::engine::{Inner, gone};
use crate::{ApplyError, StopProgress, WaitError, WaitOutcome};

/// The result for one sandbox.
enum EndResult {
    Ended(EndedSandbox),
    Failed(String),
    Kept(KeepReason),
}

impl Cleaner {
    /// Does nothing in a dry run.
    pub(super) async fn end_found(&self, report: &mut CleanupReport) {
        if !report.acts() {
            return;
        }
        let mut waiting = report.found.clone().into_iter();
        let mut running = JoinSet::new();
        let mut names = std::collections::BTreeMap::new();
        loop {
            while running.len() < self.inner.config.cleanup.batch
                && let Some(found) = waiting.next()
            {
                let id = found.id;
                let task = running.spawn(end_with_timeout(self.inner.clone(), self.began_at, found));
                names.insert(task.id(), id);
            }
            let Some(done) = running.join_next_with_id().await else { return };
            let (id, result) = match done {
                Ok((task, result)) => (names.remove(&task), result),
                Err(error) => (names.remove(&error.id()), EndResult::Failed(error.to_string())),
            };
            if let Some(id) = id {
                record_result(report, id, result);
            }
        }
    }
}

fn record_result(report: &mut CleanupReport, id: SandboxId, result: EndResult) {
    let layer = report.layer.word();
    match result {
        EndResult::Ended(ended) => {
            let reason = report.found.iter().find(|found| found.id == id).map(|found| found.why.word());
            tracing::info!(layer, sandbox_id = %id, reason, "Cleaned up {id}");
            report.ended.push(ended);
        }
        EndResult::Failed(why) => {
            tracing::warn!(layer, sandbox_id = %id, why, "Failed to cleanup {id}");
            report.failed.push(FailedSandbox { id, why });
        }
        EndResult::Kept(why) => {
            if why == KeepReason::Ending {
                report.found.retain(|found| found.id != id);
            }
            report.keep(id, why);
        }
    }
}

/// Ends one sandbox, with a time limit on everything.
async fn end_with_timeout(inner: Arc<Inner>, began_at: Timestamp, found: FoundSandbox) -> EndResult {
    let item_ms = inner.config.cleanup.item_ms;
    let until = inner.clock.now().after_ms(item_ms);
    // Waiting for the proof ends at `until`; calls without their own timeout are cut off slightly later.
    let cut_off = until.after_ms(item_ms / 10 + 1);
    tokio::select! {
        biased;
        result = end(&inner, began_at, &found, until) => result,
        () = inner.clock.sleep_until(cut_off) => EndResult::Failed(format!("no answer within {item_ms} ms")),
    }
}

async fn end(inner: &Arc<Inner>, began_at: Timestamp, found: &FoundSandbox, until: Timestamp) -> EndResult {
    let id = found.id;
    let gone_for_good = || EndResult::Ended(EndedSandbox { id, proof: None });
    match inner.store.load(id).await {
        Ok(Some(Row::Readable(stored))) if has_recovered(inner, began_at, &stored, &found.why) => {
            return EndResult::Kept(KeepReason::Recovered);
        }
        Ok(Some(Row::Readable(_) | Row::Unreadable(_))) => {}
        Ok(None) => return gone_for_good(),
        Err(error) => return EndResult::Failed(error_chain(&error)),
    }
    let Some(cause) = found.why.cause() else { return EndResult::Kept(KeepReason::Ending) };
    let grace_ms = (found.why == CleanupReason::Emergency).then_some(0);
    let stop = Input::Request(Request::CleanUp { cause, grace_ms });
    match inner.clone().apply(id, stop, Vec::new()).await {
        Ok(()) => {}
        Err(ApplyError::Missing) => return gone_for_good(),
        Err(ApplyError::Refused(Refusal::Ending { .. } | Refusal::Ended { .. })) => {
            return EndResult::Kept(KeepReason::Ending);
        }
        Err(error) => return EndResult::Failed(error_chain(&error)),
    }
    match inner.wait_for(id, until, gone).await {
        Ok(WaitOutcome::Met(StopProgress::Gone { cause, receipt })) => {
            EndResult::Ended(EndedSandbox { id, proof: Some((cause, receipt)) })
        }
        Ok(WaitOutcome::Met(StopProgress::Pending) | WaitOutcome::DeadlinePassed) => {
            EndResult::Failed("not proven gone yet; the stop continues".into())
        }
        Err(WaitError::Missing) => gone_for_good(),
        Err(error) => EndResult::Failed(error_chain(&error)),
    }
}

/// Whether a sandbox recovered since the sweep found it.
fn has_recovered(inner: &Inner, began_at: Timestamp, stored: &StoredSandbox, why: &CleanupReason) -> bool {
    if !matches!(stored.sandbox.life, Life::Wanted) {
        return false;
    }
    let activity = match why {
        CleanupReason::Stuck(Stuck::Silent { since, .. }) => Activity::LastSeen(*since),
        // The probe failed just now, whatever the record says.
        CleanupReason::Stuck(Stuck::Failed { .. }) => return false,
        CleanupReason::Stuck(_) => Activity::Unknown,
        CleanupReason::Idle => return !stored.sandbox.executions.is_empty(),
        CleanupReason::Emergency
        | CleanupReason::InstanceWithoutRecord
        | CleanupReason::RecordWithoutInstance
        | CleanupReason::UnreadableRecord
        | CleanupReason::StatusDisagrees => {
            return false;
        }
    };
    let subject = CleanupCandidate {
        sandbox: &stored.sandbox,
        policy: &stored.policy,
        activity,
        monitored_since: began_at,
    };
    stuck(&subject, &inner.config.cleanup.rules, inner.clock.now()).is_none()
}
