//! Real bodies under a clock that was moved: what they did before that is as old as the clock says. Some of them fail
//! their probes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use pinfold_lifecycle::{
    Evidence, ExecutionId, Outcome, ProbeFailure, Probed, SandboxId, Seen, StopOutcome, Timestamp,
};
use pinfold_provider::{
    AskBodyError, Capacity, DiscoverError, Discovered, Exec, ExecError, Fed, Feed, FeedError, InstanceId,
    Killed, Provider, ResizeError, SignalError, Start, StartError, TerminalSize, Usage, WaitError,
};

use crate::clock::MovedClock;

pub(crate) struct Aged {
    pub(crate) inner: Arc<dyn Provider>,
    pub(crate) clock: Arc<MovedClock>,
    pub(crate) broken: Arc<Mutex<BTreeSet<SandboxId>>>,
}

impl Aged {
    fn broken(&self, body: InstanceId) -> Option<Probed> {
        let is_broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner).contains(&body.sandbox);
        is_broken.then(|| Probed::Failed(ProbeFailure::Files { why: "/home is not mounted".into() }))
    }
}

#[async_trait]
impl Provider for Aged {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        self.inner.discover().await
    }

    async fn start(&self, start: Start<'_>) -> Result<(), StartError> {
        self.inner.start(start).await
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        let mut evidence = self.inner.observe(sandbox).await;
        if let Evidence::Present(bodies) = &mut evidence {
            for body in bodies {
                body.last_busy_at = body.last_busy_at.map(|at| self.clock.aged(at));
                for execution in &mut body.executions {
                    if let Seen::Running { last_activity_at } = &mut execution.seen {
                        *last_activity_at = self.clock.aged(*last_activity_at);
                    }
                }
            }
        }
        evidence
    }

    async fn probe(&self, body: InstanceId) -> Probed {
        match self.broken(body) {
            Some(broken) => broken,
            None => self.inner.probe(body).await,
        }
    }

    async fn ping(&self, body: InstanceId) -> Probed {
        match self.broken(body) {
            Some(broken) => broken,
            None => self.inner.ping(body).await,
        }
    }

    async fn exec(&self, body: InstanceId, exec: Exec<'_>) -> Result<(), ExecError> {
        self.inner.exec(body, exec).await
    }

    async fn wait(&self, body: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        self.inner.wait(body, execution).await
    }

    async fn kill(&self, body: InstanceId, execution: ExecutionId) -> Killed {
        self.inner.kill(body, execution).await
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
        self.inner.stop(body, grace_ms).await
    }

    async fn usage(&self, body: InstanceId) -> Result<Usage, AskBodyError> {
        self.inner.usage(body).await
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        self.inner.capacity().await
    }

    async fn keep_alive(&self, body: InstanceId, ends_at: Timestamp) -> Result<(), AskBodyError> {
        self.inner.keep_alive(body, ends_at).await
    }
}
