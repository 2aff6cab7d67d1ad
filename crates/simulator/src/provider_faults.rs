//! Faults of provider calls, and the provider behind one node's gate.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pinfold_engine::Clock;
use pinfold_lifecycle::{Evidence, ExecutionId, Outcome, ProbeResult, SandboxId, StopOutcome, Timestamp};
use pinfold_provider::fake::{Call, CallPlan, FakeProvider, Fault, FaultPlan};
use pinfold_provider::{
    Capacity, DiscoverError, Discovered, ExecError, ExecRequest, Files, InstanceError, InstanceId,
    KillOutcome, Provider, ResizeError, SignalError, StartError, StartRequest, StdinError, StdinWrite,
    TerminalSize, Usage, WaitError, WriteResult,
};

use crate::checker::Checker;
use crate::environment::SimClock;
use crate::gate::Gate;
use crate::random::Random;

/// How often provider calls fail and how long they take, until the faults end.
pub(crate) struct ProviderFaults {
    pub(crate) random: Random,
    pub(crate) clock: Arc<SimClock>,
    faults_per_mille: AtomicU64,
    slowness_ms: AtomicU64,
}

impl ProviderFaults {
    pub(crate) fn new(random: Random, clock: Arc<SimClock>) -> Self {
        let faults_per_mille = random.one_of(&[0, 10, 50, 150, 300]).unwrap_or(0).into();
        let slowness_ms = random.one_of(&[0, 20, 300, 3_000]).unwrap_or(0).into();
        Self { random, clock, faults_per_mille, slowness_ms }
    }

    pub(crate) fn end_faults(&self) {
        self.faults_per_mille.store(0, Ordering::Relaxed);
        self.slowness_ms.store(0, Ordering::Relaxed);
    }
}

impl FaultPlan for ProviderFaults {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }

    fn plan_call(&self, _call: Call) -> CallPlan {
        let slowness = self.slowness_ms.load(Ordering::Relaxed);
        let wait = || {
            if slowness == 0 { 0 } else { self.random.below(slowness) }
        };
        let (before_ms, halfway_ms, after_ms) = (wait(), wait(), wait());
        let faults = [Fault::Fails, Fault::HalfDone, Fault::AnswerLost, Fault::ObserveFails];
        let fails = self.random.happens(self.faults_per_mille.load(Ordering::Relaxed));
        let fault = if fails { self.random.one_of(&faults) } else { None };
        CallPlan { before_ms, halfway_ms, after_ms, fault }
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
        self.checker.check_instances();
        self.gate.pass().await;
        answer
    }
}

#[async_trait]
impl Provider for GatedProvider {
    fn name(&self) -> &'static str {
        self.fake.name()
    }

    fn files(&self) -> &dyn Files {
        self.fake.files()
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        self.pass(self.fake.discover()).await
    }

    async fn start(&self, start: StartRequest<'_>) -> Result<(), StartError> {
        self.pass(self.fake.start(start)).await
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        self.pass(self.fake.observe(sandbox)).await
    }

    async fn probe(&self, instance: InstanceId) -> ProbeResult {
        let probed = self.pass(self.fake.probe(instance)).await;
        self.checker.probed(instance, &probed);
        probed
    }

    async fn ping(&self, instance: InstanceId) -> ProbeResult {
        let probed = self.pass(self.fake.ping(instance)).await;
        self.checker.probed(instance, &probed);
        probed
    }

    async fn exec(&self, instance: InstanceId, exec: ExecRequest<'_>) -> Result<(), ExecError> {
        self.pass(self.fake.exec(instance, exec)).await
    }

    async fn wait(&self, instance: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        self.pass(self.fake.wait(instance, execution)).await
    }

    async fn kill(&self, instance: InstanceId, execution: ExecutionId) -> KillOutcome {
        self.pass(self.fake.kill(instance, execution)).await
    }

    async fn signal(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        signal: i32,
    ) -> Result<(), SignalError> {
        self.pass(self.fake.signal(instance, execution, signal)).await
    }

    async fn write_stdin(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        feed: StdinWrite<'_>,
    ) -> Result<WriteResult, StdinError> {
        self.pass(self.fake.write_stdin(instance, execution, feed)).await
    }

    async fn resize(
        &self,
        instance: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError> {
        self.pass(self.fake.resize(instance, execution, size)).await
    }

    async fn stop(&self, instance: InstanceId, grace_ms: u64) -> StopOutcome {
        self.pass(self.fake.stop(instance, grace_ms)).await
    }

    async fn usage(&self, instance: InstanceId) -> Result<Usage, InstanceError> {
        self.pass(self.fake.usage(instance)).await
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        self.pass(self.fake.capacity()).await
    }

    async fn keep_alive(&self, instance: InstanceId, ends_at: Timestamp) -> Result<(), InstanceError> {
        self.pass(self.fake.keep_alive(instance, ends_at)).await
    }
}
