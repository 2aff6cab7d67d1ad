//! A provider of real instances under a shifted clock: earlier activity is reported as old as that clock says.
//! Chosen sandboxes fail their probes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use pinfold_lifecycle::{
    Evidence, ExecutionId, Outcome, ProbeFailure, ProbeResult, ProcessObservation, SandboxId, StopOutcome,
    Timestamp,
};
use pinfold_provider::{
    Capacity, DiscoverError, Discovered, ExecError, ExecRequest, Files, InstanceError, InstanceId,
    KillOutcome, Provider, ResizeError, SignalError, StartError, StartRequest, StdinError, StdinWrite,
    TerminalSize, Usage, WaitError, WriteResult,
};

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
impl Provider for AgedProvider {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn files(&self) -> &dyn Files {
        self.inner.files()
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        self.inner.discover().await
    }

    async fn start(&self, start: StartRequest<'_>) -> Result<(), StartError> {
        self.inner.start(start).await
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

    async fn exec(&self, instance: InstanceId, exec: ExecRequest<'_>) -> Result<(), ExecError> {
        self.inner.exec(instance, exec).await
    }

    async fn wait(&self, instance: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        self.inner.wait(instance, execution).await
    }

    async fn kill(&self, instance: InstanceId, execution: ExecutionId) -> KillOutcome {
        self.inner.kill(instance, execution).await
    }

    async fn signal(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        signal: i32,
    ) -> Result<(), SignalError> {
        self.inner.signal(instance, execution, signal).await
    }

    async fn write_stdin(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        feed: StdinWrite<'_>,
    ) -> Result<WriteResult, StdinError> {
        self.inner.write_stdin(instance, execution, feed).await
    }

    async fn resize(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError> {
        self.inner.resize(instance, execution, size).await
    }

    async fn stop(&self, instance: InstanceId, grace_ms: u64) -> StopOutcome {
        self.inner.stop(instance, grace_ms).await
    }

    async fn usage(&self, instance: InstanceId) -> Result<Usage, InstanceError> {
        self.inner.usage(instance).await
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        self.inner.capacity().await
    }

    async fn keep_alive(&self, instance: InstanceId, ends_at: Timestamp) -> Result<(), InstanceError> {
        self.inner.keep_alive(instance, ends_at).await
    }
}
