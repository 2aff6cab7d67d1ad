//! A provider of real instances under a shifted clock: earlier activity is reported as old as that clock says.
//! Chosen sandboxes fail their probes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use pinfold_lifecycle::{Evidence, ProbeFailure, ProbeResult, ProcessObservation, SandboxId};
use pinfold_provider::{InstanceId, Provider, ProviderLayer};

use crate::clock::ShiftedClock;

pub(crate) struct AgedProvider {
    pub(crate) inner: Arc<dyn Provider>,
    pub(crate) clock: Arc<ShiftedClock>,
    pub(crate) broken: Arc<Mutex<BTreeSet<SandboxId>>>,
}

impl AgedProvider {
    fn failed_probe(&self, instance: InstanceId) -> Option<ProbeResult> {
        let is_broken =
            self.broken.lock().unwrap_or_else(PoisonError::into_inner).contains(&instance.sandbox);
        is_broken.then(|| ProbeResult::Failed(ProbeFailure::Files { why: "/home is not mounted".into() }))
    }
}

#[async_trait]
impl ProviderLayer for AgedProvider {
    fn inner(&self) -> &dyn Provider {
        &*self.inner
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        let mut evidence = self.inner.observe(sandbox).await;
        if let Evidence::Present(instances) = &mut evidence {
            for instance in instances {
                instance.last_busy_at = instance.last_busy_at.map(|at| self.clock.aged(at));
                for execution in &mut instance.executions {
                    if let ProcessObservation::Running { last_activity_at } = &mut execution.process {
                        *last_activity_at = self.clock.aged(*last_activity_at);
                    }
                }
            }
        }
        evidence
    }

    async fn probe(&self, instance: InstanceId) -> ProbeResult {
        match self.failed_probe(instance) {
            Some(broken) => broken,
            None => self.inner.probe(instance).await,
        }
    }

    async fn ping(&self, instance: InstanceId) -> ProbeResult {
        match self.failed_probe(instance) {
            Some(broken) => broken,
            None => self.inner.ping(instance).await,
        }
    }
}
