//! The provider with a failpoint around each call.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_lifecycle::{
    Evidence, ExecutionId, Finding, Outcome, ProbeResult, Receipt, ReceiptCheck, SandboxId, StopOutcome,
    Timestamp,
};
use pinfold_provider::{
    Capacity, DiscoverError, Discovered, ExecError, ExecRequest, Files, InstanceError, InstanceId,
    KillOutcome, Provider, ResizeError, SignalError, StartError, StartPermit, StartRequest, StdinError,
    StdinWrite, TerminalSize, Usage, WaitError, WriteResult,
};

use super::Guard;
use super::failpoints::{Call, Failpoints};

pub(crate) struct FailpointProvider {
    pub(crate) inner: Arc<dyn Provider>,
    pub(crate) failpoints: Arc<Failpoints>,
    pub(crate) without: Option<Guard>,
}

struct FailpointPermit<'a> {
    inner: &'a dyn StartPermit,
    gates: &'a Failpoints,
}

#[async_trait]
impl StartPermit for FailpointPermit<'_> {
    async fn still_wanted(&self) -> bool {
        self.gates.around(Call::Permit, self.inner.still_wanted()).await
    }
}

/// A receipt without any observation behind it: what the missing guard would let through.
fn unverified_stop(instance: InstanceId) -> StopOutcome {
    let check = |kind: &str| ReceiptCheck {
        kind: kind.into(),
        result: Finding::Absent,
        means: "not observed".into(),
        detail: None,
    };
    StopOutcome::Gone(Box::new(Receipt {
        generation: instance.generation,
        verified_at: Timestamp(0),
        checks: vec![check("processes"), check("cgroups")],
        freed_bytes: 0,
        used: None,
        attested: None,
    }))
}

#[async_trait]
impl Provider for FailpointProvider {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn files(&self) -> &dyn Files {
        self.inner.files()
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        self.failpoints.around(Call::Discover, self.inner.discover()).await
    }

    async fn start(&self, start: StartRequest<'_>) -> Result<(), StartError> {
        let permit = FailpointPermit { inner: start.permit, gates: &self.failpoints };
        let start = StartRequest { permit: &permit, ..start };
        self.failpoints.around(Call::Start, self.inner.start(start)).await
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        self.failpoints.around(Call::Observe, self.inner.observe(sandbox)).await
    }

    async fn probe(&self, instance: InstanceId) -> ProbeResult {
        self.failpoints.around(Call::Probe, self.inner.probe(instance)).await
    }

    async fn ping(&self, instance: InstanceId) -> ProbeResult {
        self.inner.ping(instance).await
    }

    async fn exec(&self, instance: InstanceId, exec: ExecRequest<'_>) -> Result<(), ExecError> {
        self.failpoints.around(Call::Exec, self.inner.exec(instance, exec)).await
    }

    async fn wait(&self, instance: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        self.failpoints.around(Call::Wait, self.inner.wait(instance, execution)).await
    }

    async fn kill(&self, instance: InstanceId, execution: ExecutionId) -> KillOutcome {
        self.failpoints.around(Call::Kill, self.inner.kill(instance, execution)).await
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
        if self.without == Some(Guard::Observation) {
            return unverified_stop(instance);
        }
        self.failpoints.around(Call::Stop, self.inner.stop(instance, grace_ms)).await
    }

    async fn usage(&self, instance: InstanceId) -> Result<Usage, InstanceError> {
        self.inner.usage(instance).await
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        self.inner.capacity().await
    }

    async fn keep_alive(&self, instance: InstanceId, ends_at: Timestamp) -> Result<(), InstanceError> {
        self.failpoints.around(Call::Extend, self.inner.keep_alive(instance, ends_at)).await
    }
}
