//! Faults of provider calls, and the provider behind one node's gate.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pinfold_engine::Clock;
use pinfold_lifecycle::{ProbeResult, Timestamp};
use pinfold_provider::fake::{Call, CallPlan, FakeProvider, Fault, FaultPlan};
use pinfold_provider::{InstanceId, Provider, ProviderCall, ProviderLayer};

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

#[async_trait]
impl ProviderLayer for GatedProvider {
    fn inner(&self) -> &dyn Provider {
        &self.fake
    }

    async fn around<T: Send>(&self, _call: ProviderCall, work: impl Future<Output = T> + Send) -> T {
        self.gate.pass().await;
        let answer = work.await;
        self.checker.check_instances();
        self.gate.pass().await;
        answer
    }

    async fn probe(&self, instance: InstanceId) -> ProbeResult {
        let probed = self.around(ProviderCall::Probe, self.fake.probe(instance)).await;
        self.checker.probed(instance, &probed);
        probed
    }

    async fn ping(&self, instance: InstanceId) -> ProbeResult {
        let probed = self.around(ProviderCall::Ping, self.fake.ping(instance)).await;
        self.checker.probed(instance, &probed);
        probed
    }
}
