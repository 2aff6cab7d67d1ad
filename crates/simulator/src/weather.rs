//! What befalls calls to the provider, and the provider as one node reaches it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pinfold_engine::Clock;
use pinfold_lifecycle::{Evidence, ExecutionId, Outcome, Probed, SandboxId, StopOutcome, Timestamp};
use pinfold_provider::fake::{Call, FakeProvider, Fault, Forecast, Weather};
use pinfold_provider::{
    AskBodyError, Capacity, DiscoverError, Discovered, Exec, ExecError, Fed, Feed, FeedError, InstanceId,
    Killed, Provider, ResizeError, SignalError, Start, StartError, TerminalSize, Usage, WaitError,
};

use crate::chance::Chance;
use crate::checker::Checker;
use crate::gate::Gate;
use crate::seams::SimClock;

/// How often calls go wrong and how long they take, until it calms down.
pub(crate) struct Storm {
    pub(crate) chance: Chance,
    pub(crate) clock: Arc<SimClock>,
    faults_per_mille: AtomicU64,
    slowness_ms: AtomicU64,
}

impl Storm {
    pub(crate) fn new(chance: Chance, clock: Arc<SimClock>) -> Self {
        let faults_per_mille = chance.one_of(&[0, 10, 50, 150, 300]).unwrap_or(0).into();
        let slowness_ms = chance.one_of(&[0, 20, 300, 3_000]).unwrap_or(0).into();
        Self { chance, clock, faults_per_mille, slowness_ms }
    }

    pub(crate) fn calm_down(&self) {
        self.faults_per_mille.store(0, Ordering::Relaxed);
        self.slowness_ms.store(0, Ordering::Relaxed);
    }
}

impl Weather for Storm {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }

    fn forecast(&self, _call: Call) -> Forecast {
        let slowness = self.slowness_ms.load(Ordering::Relaxed);
        let wait = || {
            if slowness == 0 { 0 } else { self.chance.below(slowness) }
        };
        let (before_ms, halfway_ms, after_ms) = (wait(), wait(), wait());
        let faults = [Fault::Fails, Fault::HalfDone, Fault::AnswerLost, Fault::LookFails];
        let struck = self.chance.hits(self.faults_per_mille.load(Ordering::Relaxed));
        let fault = if struck { self.chance.one_of(&faults) } else { None };
        Forecast { before_ms, halfway_ms, after_ms, fault }
    }
}

/// The provider behind one node's gate.
pub(crate) struct GatedProvider {
    pub(crate) fake: FakeProvider,
    pub(crate) gate: Arc<Gate>,
    pub(crate) checker: Arc<Checker>,
}

impl GatedProvider {
    async fn pass<T>(&self, call: impl Future<Output = T>) -> T {
        self.gate.pass().await;
        let answer = call.await;
        self.checker.look();
        self.gate.pass().await;
        answer
    }
}

#[async_trait]
impl Provider for GatedProvider {
    fn name(&self) -> &'static str {
        self.fake.name()
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        self.pass(self.fake.discover()).await
    }

    async fn start(&self, start: Start<'_>) -> Result<(), StartError> {
        self.pass(self.fake.start(start)).await
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        self.pass(self.fake.observe(sandbox)).await
    }

    async fn probe(&self, body: InstanceId) -> Probed {
        let probed = self.pass(self.fake.probe(body)).await;
        self.checker.probed(body, &probed);
        probed
    }

    async fn ping(&self, body: InstanceId) -> Probed {
        let probed = self.pass(self.fake.ping(body)).await;
        self.checker.probed(body, &probed);
        probed
    }

    async fn exec(&self, body: InstanceId, exec: Exec<'_>) -> Result<(), ExecError> {
        self.pass(self.fake.exec(body, exec)).await
    }

    async fn wait(&self, body: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        self.pass(self.fake.wait(body, execution)).await
    }

    async fn kill(&self, body: InstanceId, execution: ExecutionId) -> Killed {
        self.pass(self.fake.kill(body, execution)).await
    }

    async fn signal(&self, body: InstanceId, execution: ExecutionId, signal: i32) -> Result<(), SignalError> {
        self.pass(self.fake.signal(body, execution, signal)).await
    }

    async fn feed(&self, body: InstanceId, execution: ExecutionId, feed: Feed<'_>) -> Result<Fed, FeedError> {
        self.pass(self.fake.feed(body, execution, feed)).await
    }

    async fn resize(
        &self,
        body: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError> {
        self.pass(self.fake.resize(body, execution, size)).await
    }

    async fn stop(&self, body: InstanceId, grace_ms: u64) -> StopOutcome {
        self.pass(self.fake.stop(body, grace_ms)).await
    }

    async fn usage(&self, body: InstanceId) -> Result<Usage, AskBodyError> {
        self.pass(self.fake.usage(body)).await
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        self.pass(self.fake.capacity()).await
    }

    async fn keep_alive(&self, body: InstanceId, ends_at: Timestamp) -> Result<(), AskBodyError> {
        self.pass(self.fake.keep_alive(body, ends_at)).await
    }
}
