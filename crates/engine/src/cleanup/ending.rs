//! Ends what was found by the one way to stop, so many side by side, each on its own: one that fails, hangs or panics
//! holds up no other, and one that is gone already is as good as ended.

use std::sync::Arc;

use pinfold_lifecycle::{Activity, Life, Request, SandboxId, Stuck, Subject, Timestamp, stuck};
use pinfold_store::{Row, Stored};
use tokio::task::JoinSet;

use super::{Cleaner, CleanupReport, Ended, Failed, Found, Spared, Why, told};
use crate::apply::Input;
use crate::engine::{Inner, gone};
use crate::{ApplyError, Stop, WaitError, Waited};

/// What became of one.
enum Fate {
    Ended(Ended),
    Failed(String),
    Kept(Spared),
}

impl Cleaner {
    /// A dry run ends nothing.
    pub(super) async fn end_found(&self, report: &mut CleanupReport) {
        if !report.acts() {
            return;
        }
        let mut waiting = report.found.clone().into_iter();
        let mut under_way = JoinSet::new();
        let mut names = std::collections::BTreeMap::new();
        loop {
            while under_way.len() < self.inner.config.cleanup.batch
                && let Some(found) = waiting.next()
            {
                let id = found.id;
                let task = under_way.spawn(end_in_time(self.inner.clone(), self.began_at, found));
                names.insert(task.id(), id);
            }
            let Some(done) = under_way.join_next_with_id().await else { return };
            let (id, fate) = match done {
                Ok((task, fate)) => (names.remove(&task), fate),
                Err(error) => (names.remove(&error.id()), Fate::Failed(error.to_string())),
            };
            if let Some(id) = id {
                note(report, id, fate);
            }
        }
    }
}

fn note(report: &mut CleanupReport, id: SandboxId, fate: Fate) {
    let layer = report.layer.word();
    match fate {
        Fate::Ended(ended) => {
            let reason = report.found.iter().find(|found| found.id == id).map(|found| found.why.word());
            tracing::info!(layer, sandbox_id = %id, reason, "Cleaned up {id}");
            report.ended.push(ended);
        }
        Fate::Failed(why) => {
            tracing::warn!(layer, sandbox_id = %id, why, "Failed to cleanup {id}");
            report.failed.push(Failed { id, why });
        }
        Fate::Kept(why) => report.keep(id, why),
    }
}

/// Whatever it waits for, it comes back.
async fn end_in_time(inner: Arc<Inner>, began_at: Timestamp, found: Found) -> Fate {
    let item_ms = inner.config.cleanup.item_ms;
    let until = inner.clock.now().after_ms(item_ms);
    // The wait for the proof has the same end; what has none of its own is cut off a little later.
    let cut_off = until.after_ms(item_ms / 10 + 1);
    tokio::select! {
        biased;
        fate = end(&inner, began_at, &found, until) => fate,
        () = inner.clock.sleep_until(cut_off) => Fate::Failed(format!("there was no answer within {item_ms} ms")),
    }
}

async fn end(inner: &Arc<Inner>, began_at: Timestamp, found: &Found, until: Timestamp) -> Fate {
    let id = found.id;
    let gone_for_good = || Fate::Ended(Ended { id, proof: None });
    match inner.store.load(id).await {
        Ok(Some(Row::Readable(stored))) if is_well_again(inner, began_at, &stored, &found.why) => {
            return Fate::Kept(Spared::Recovered);
        }
        Ok(Some(Row::Readable(_) | Row::Unreadable(_))) => {}
        Ok(None) => return gone_for_good(),
        Err(error) => return Fate::Failed(told(&error)),
    }
    let Some(cause) = found.why.cause() else { return Fate::Kept(Spared::Ending) };
    let forced = found.why == Why::Emergency;
    let stop = Input::Ask(Request::Stop { cause, forced });
    match inner.clone().apply(id, stop, Vec::new()).await {
        Ok(()) => {}
        Err(ApplyError::Missing) => return gone_for_good(),
        Err(error) => return Fate::Failed(told(&error)),
    }
    match inner.wait_for(id, until, gone).await {
        Ok(Waited::Met(Stop::Gone { cause, receipt })) => {
            Fate::Ended(Ended { id, proof: Some((cause, receipt)) })
        }
        Ok(Waited::Met(Stop::Pending) | Waited::DeadlinePassed) => {
            Fate::Failed("it is not proven gone yet; its end goes on by itself".into())
        }
        Err(WaitError::Missing) => gone_for_good(),
        Err(error) => Fate::Failed(told(&error)),
    }
}

/// A sweep takes its time, and who was stuck at its beginning may not be any more.
fn is_well_again(inner: &Inner, began_at: Timestamp, stored: &Stored, why: &Why) -> bool {
    if !matches!(stored.sandbox.life, Life::Wanted) {
        return false;
    }
    let activity = match why {
        Why::Stuck(Stuck::Silent { since, .. }) => Activity::LastSeen(*since),
        // It failed when it was asked just now, whatever is recorded.
        Why::Stuck(Stuck::Failed { .. }) => return false,
        Why::Stuck(_) => Activity::Unknown,
        Why::Idle => return !stored.sandbox.executions.is_empty(),
        Why::Emergency
        | Why::BodyWithoutRecord
        | Why::RecordWithoutBody
        | Why::UnreadableRecord
        | Why::StatusDisagrees => {
            return false;
        }
    };
    let subject =
        Subject { sandbox: &stored.sandbox, policy: &stored.policy, activity, watched_since: began_at };
    stuck(&subject, &inner.config.cleanup.rules, inner.clock.now()).is_none()
}
