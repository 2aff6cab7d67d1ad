//! The provider behind the gates.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_lifecycle::{
    Evidence, ExecutionId, Finding, Outcome, Probed, Receipt, ReceiptCheck, SandboxId, StopOutcome, Timestamp,
};
use pinfold_provider::{
    AskBodyError, Capacity, DiscoverError, Discovered, Exec, ExecError, Fed, Feed, FeedError, InstanceId,
    Killed, Provider, ResizeError, SignalError, Start, StartError, StartPermit, TerminalSize, Usage,
    WaitError,
};

use super::Guard;
use super::gates::{Call, Gates};

pub(crate) struct GatedProvider {
    pub(crate) inner: Arc<dyn Provider>,
    pub(crate) gates: Arc<Gates>,
    pub(crate) without: Option<Guard>,
}

struct GatedPermit<'a> {
    inner: &'a dyn StartPermit,
    gates: &'a Gates,
}

#[async_trait]
impl StartPermit for GatedPermit<'_> {
    async fn still_wanted(&self) -> bool {
        self.gates.around(Call::Permit, self.inner.still_wanted()).await
    }
}

/// What a stop would prove if it had looked.
fn without_a_look(body: InstanceId) -> StopOutcome {
    let check = |kind: &str| ReceiptCheck {
        kind: kind.into(),
        result: Finding::Absent,
        means: "nobody looked".into(),
        detail: None,
    };
    StopOutcome::Gone(Box::new(Receipt {
        generation: body.generation,
        verified_at: Timestamp(0),
        checks: vec![check("processes"), check("cgroups")],
        freed_bytes: 0,
        used: None,
        attested: None,
    }))
}

#[async_trait]
impl Provider for GatedProvider {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        self.gates.around(Call::Discover, self.inner.discover()).await
    }

    async fn start(&self, start: Start<'_>) -> Result<(), StartError> {
        let permit = GatedPermit { inner: start.permit, gates: &self.gates };
        let start = Start { permit: &permit, ..start };
        self.gates.around(Call::Start, self.inner.start(start)).await
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        self.gates.around(Call::Observe, self.inner.observe(sandbox)).await
    }

    async fn probe(&self, body: InstanceId) -> Probed {
        self.gates.around(Call::Probe, self.inner.probe(body)).await
    }

    async fn ping(&self, body: InstanceId) -> Probed {
        self.inner.ping(body).await
    }

    async fn exec(&self, body: InstanceId, exec: Exec<'_>) -> Result<(), ExecError> {
        self.gates.around(Call::Exec, self.inner.exec(body, exec)).await
    }

    async fn wait(&self, body: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        self.gates.around(Call::Wait, self.inner.wait(body, execution)).await
    }

    async fn kill(&self, body: InstanceId, execution: ExecutionId) -> Killed {
        self.gates.around(Call::Kill, self.inner.kill(body, execution)).await
    }

    async fn signal(&self, body: InstanceId, execution: ExecutionId, signal: i32) -> Result<(), SignalError> {
        self.inner.signal(body, execution, signal).await
    }

    async fn feed(&self, body: InstanceId, execution: ExecutionId, feed: Feed<'_>) -> Result<Fed, FeedError> {
        self.inner.feed(body, execution, feed).await
    }

    async fn resize(
        &self,
        body: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError> {
        self.inner.resize(body, execution, size).await
    }

    async fn stop(&self, body: InstanceId, grace_ms: u64) -> StopOutcome {
        if self.without == Some(Guard::Look) {
            return without_a_look(body);
        }
        self.gates.around(Call::Stop, self.inner.stop(body, grace_ms)).await
    }

    async fn usage(&self, body: InstanceId) -> Result<Usage, AskBodyError> {
        self.inner.usage(body).await
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        self.inner.capacity().await
    }

    async fn keep_alive(&self, body: InstanceId, ends_at: Timestamp) -> Result<(), AskBodyError> {
        self.gates.around(Call::Extend, self.inner.keep_alive(body, ends_at)).await
    }
}
