//! Whether bodies fare as is believed of them: each live one is really tried, a few at a time, and compared with its
//! record. That runs a program in each, so it is for every hour and for those who ask for it, not for every minute.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use pinfold_lifecycle::{Event, Lease, ProbeFailure, Probed, SandboxId, State, status};
use pinfold_provider::InstanceId;
use pinfold_store::{Filter, Row, StoreError, Stored};

use crate::apply::Input;
use crate::engine::{Engine, Inner, PAGE};
use crate::{ApplyError, Reconcile, ReconcileError};

/// As many as a small host can run programs in without anybody waiting for them.
const AT_ONCE: usize = 8;

/// A record and a probe that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    pub sandbox: SandboxId,
    pub status: State,
    pub probed: Probed,
}

impl Engine {
    /// Tries every live body and says whose status is not what was seen. On a repair each of them is probed again by
    /// whoever owns it, and only that decides.
    pub async fn disagreements(&self, how: Reconcile) -> Result<Vec<Disagreement>, ReconcileError> {
        self.inner.disagreements(how).await
    }

    /// Somebody has tried this one, and it did not work: it is probed by whoever owns it, unless that is known.
    pub async fn seen_failing(&self, sandbox: SandboxId, failure: &ProbeFailure) -> Result<(), ApplyError> {
        let why = format!("somebody tried it: {failure:?}");
        self.inner.disagree(sandbox, why).await
    }
}

impl Inner {
    pub(crate) async fn disagreements(
        self: &Arc<Self>,
        how: Reconcile,
    ) -> Result<Vec<Disagreement>, ReconcileError> {
        let found = self.compare_all().await?;
        if how == Reconcile::Repair {
            for it in &found {
                let why = format!("it is recorded as {:?} and was seen as {:?}", it.status, it.probed);
                self.disagree(it.sandbox, why).await?;
            }
        }
        Ok(found)
    }

    async fn disagree(self: &Arc<Self>, sandbox: SandboxId, why: String) -> Result<(), ApplyError> {
        match self.clone().apply(sandbox, Input::Fact(Event::Disagreed { why }), Vec::new()).await {
            Ok(()) | Err(ApplyError::Missing) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn compare_all(self: &Arc<Self>) -> Result<Vec<Disagreement>, StoreError> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.store.list(Filter::Leased, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(found) };
            after = Some(last.id());
            let live = page.into_iter().filter_map(live);
            let tried: Vec<_> =
                stream::iter(live).map(|stored| self.compare_one(stored)).buffered(AT_ONCE).collect().await;
            for outcome in tried {
                found.extend(outcome?);
            }
        }
    }

    async fn compare_one(&self, stored: Box<Stored>) -> Result<Option<Disagreement>, StoreError> {
        let sandbox = stored.sandbox.id;
        let body = InstanceId { sandbox, generation: stored.sandbox.generation() };
        let deadline = self.clock.now().after_ms(stored.policy.probe_ms);
        let probed = tokio::select! {
            biased;
            probed = self.provider.probe(body) => probed,
            () = self.clock.sleep_until(deadline) => Probed::Unknown { why: "there was no answer in time".into() },
        };
        let status = status(&stored.sandbox, self.clock.now(), &stored.policy).state;
        if !contradict(status, &probed) {
            return Ok(None);
        }
        // Where the record has changed meanwhile, what was seen may be of before or of after.
        let unchanged = match self.store.load(sandbox).await? {
            Some(Row::Readable(now)) => now.version == stored.version,
            Some(Row::Unreadable(_)) | None => false,
        };
        Ok(unchanged.then_some(Disagreement { sandbox, status, probed }))
    }
}

/// One that is being checked already will tell by itself.
fn live(row: Row) -> Option<Box<Stored>> {
    match row {
        Row::Readable(stored) => {
            let is_settled = matches!(&stored.sandbox.lease, Lease::Live(live) if live.check.is_none());
            (is_settled && stored.sandbox.pooled.is_none()).then_some(stored)
        }
        Row::Unreadable(_) => None,
    }
}

/// What is not known contradicts nothing.
fn contradict(status: State, probed: &Probed) -> bool {
    match probed {
        Probed::Passed => status == State::Unhealthy,
        Probed::Failed(_) => matches!(status, State::Ready | State::Running),
        Probed::Unknown { .. } => false,
    }
}
