//! Consistency check of health: probes every live instance, a few at a time, and compares the result with its
//! record. Each probe runs a program inside, so this runs hourly and on request.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use pinfold_lifecycle::{Event, Lease, ProbeFailure, ProbeResult, SandboxId, State, status};
use pinfold_provider::InstanceId;
use pinfold_store::{Row, SandboxFilter, StoreError, StoredSandbox};

use crate::apply::Input;
use crate::engine::{Engine, Inner, PAGE};
use crate::{ApplyError, ReconcileError, ReconcileMode};

/// Few enough that a small host stays responsive.
const CONCURRENT_PROBES: usize = 8;

/// A record and a probe result that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusMismatch {
    pub sandbox: SandboxId,
    pub status: State,
    pub probed: ProbeResult,
}

impl Engine {
    /// Probes every live instance and reports those whose status contradicts the probe. On repair each owner
    /// probes its instance again, and only that probe decides.
    pub async fn status_mismatches(
        &self,
        mode: ReconcileMode,
    ) -> Result<Vec<StatusMismatch>, ReconcileError> {
        self.inner.status_mismatches(mode).await
    }

    /// Reports a failed probe by a third party. The owner probes the instance again, unless its failure is
    /// already known.
    pub async fn report_probe_failure(
        &self,
        sandbox: SandboxId,
        failure: &ProbeFailure,
    ) -> Result<(), ApplyError> {
        let why = format!("a probe from outside failed: {failure}");
        self.inner.apply_mismatch(sandbox, why).await
    }
}

impl Inner {
    pub(crate) async fn status_mismatches(
        self: &Arc<Self>,
        mode: ReconcileMode,
    ) -> Result<Vec<StatusMismatch>, ReconcileError> {
        let found = self.probe_all().await?;
        if mode == ReconcileMode::Repair {
            for mismatch in &found {
                let why = mismatch_text(mismatch);
                self.apply_mismatch(mismatch.sandbox, why).await?;
            }
        }
        Ok(found)
    }

    async fn apply_mismatch(self: &Arc<Self>, sandbox: SandboxId, why: String) -> Result<(), ApplyError> {
        match self.clone().apply(sandbox, Input::Fact(Event::Disagreed { why }), Vec::new()).await {
            Ok(()) | Err(ApplyError::Missing) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn probe_all(self: &Arc<Self>) -> Result<Vec<StatusMismatch>, StoreError> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.store.list(SandboxFilter::Leased, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(found) };
            after = Some(last.id());
            let live = page.into_iter().filter_map(live);
            let tried: Vec<_> = stream::iter(live)
                .map(|stored| self.probe_one(stored))
                .buffered(CONCURRENT_PROBES)
                .collect()
                .await;
            for outcome in tried {
                found.extend(outcome?);
            }
        }
    }

    async fn probe_one(&self, stored: Box<StoredSandbox>) -> Result<Option<StatusMismatch>, StoreError> {
        let sandbox = stored.sandbox.id;
        let instance = InstanceId { sandbox, generation: stored.sandbox.generation() };
        let deadline = self.clock.now().after_ms(stored.policy.probe_ms);
        let probed = tokio::select! {
            biased;
            probed = self.probe(instance) => probed,
            () = self.clock.sleep_until(deadline) => ProbeResult::Unknown { why: "no answer in time".into() },
        };
        let status = status(&stored.sandbox, self.clock.now(), &stored.policy).state;
        if !contradicts(status, &probed) {
            return Ok(None);
        }
        // If the record changed meanwhile, the probe may belong to either state.
        let unchanged = match self.store.load(sandbox).await? {
            Some(Row::Readable(now)) => now.version == stored.version,
            Some(Row::Unreadable(_)) | None => false,
        };
        Ok(unchanged.then_some(StatusMismatch { sandbox, status, probed }))
    }
}

/// An instance under check is left to that check.
fn live(row: Row) -> Option<Box<StoredSandbox>> {
    match row {
        Row::Readable(stored) => {
            let is_settled = matches!(&stored.sandbox.lease, Lease::Live(live) if live.check.is_none());
            (is_settled && stored.sandbox.pooled.is_none()).then_some(stored)
        }
        Row::Unreadable(_) => None,
    }
}

/// An unknown result contradicts nothing.
fn contradicts(status: State, probed: &ProbeResult) -> bool {
    match probed {
        ProbeResult::Passed => status == State::Unhealthy,
        ProbeResult::Failed(_) => matches!(status, State::Ready | State::Running),
        ProbeResult::Unknown { .. } => false,
    }
}

/// Says which side is which, for the sandbox's history.
fn mismatch_text(mismatch: &StatusMismatch) -> String {
    match &mismatch.probed {
        ProbeResult::Passed => "it is recorded as unhealthy and passed a probe".to_owned(),
        ProbeResult::Failed(failure) => format!("it is recorded as healthy and failed a probe: {failure}"),
        ProbeResult::Unknown { why } => format!("the result of its probe is unknown: {why}"),
    }
}
