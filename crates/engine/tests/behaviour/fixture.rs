//! A fixture: one store, one fake host, one clock, and as many engines as the test starts on them.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_engine::{Clock, Config, CreateRequest, Engine, Parts, StopProgress, WaitOutcome};
use pinfold_lifecycle::{
    Cause, Command, ExecutionId, ExecutionKind, ExecutionLimits, Fact, Generation, Guards, Outcome, Policy,
    Sandbox, SandboxId, Spec, State, status,
};
use pinfold_provider::fake::{FakeProvider, FakeWorld, PhysicalInstance};
use pinfold_provider::{InstanceId, Provider, StartPermit, StartRequest};
use pinfold_store::{Row, SandboxFilter, Seq, Store, StoredSandbox};
use pinfold_store_sqlite::InlineStore;

use crate::fakes::{CountingIds, START, TestArtifacts, TestClock, TestFaults, TestLiveness};

pub(crate) const SECOND: u64 = 1_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;

pub(crate) struct Fixture {
    pub(crate) store: Arc<InlineStore>,
    pub(crate) world: Arc<FakeWorld>,
    pub(crate) clock: TestClock,
    pub(crate) faults: Arc<TestFaults>,
    pub(crate) liveness: Arc<TestLiveness>,
    pub(crate) artifacts: Arc<TestArtifacts>,
    ids: Arc<CountingIds>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let clock = TestClock::new();
        Self {
            store: Arc::new(InlineStore::in_memory(1).unwrap()),
            world: Arc::default(),
            faults: TestFaults::over(clock.clone()),
            clock,
            liveness: Arc::default(),
            artifacts: Arc::default(),
            ids: Arc::default(),
        }
    }

    pub(crate) async fn start_engine(&self) -> Engine {
        self.start_engine_with(Config::default()).await
    }

    /// An engine with a long poll interval, for tests of many minutes. Deadlines are not affected.
    pub(crate) async fn start_engine_slow_poll(&self) -> Engine {
        let config = Config { poll_ms: 10 * SECOND, ..Config::default() };
        self.start_engine_with(config).await
    }

    pub(crate) async fn start_engine_with(&self, config: Config) -> Engine {
        self.start_engine_over(self.provider(&self.faults), config).await
    }

    pub(crate) async fn start_engine_over(&self, provider: impl Provider, config: Config) -> Engine {
        let parts = self.parts(provider, self.clock.clone());
        Engine::start(parts, config).await.unwrap()
    }

    /// An engine on another store handle than the fixture's.
    pub(crate) async fn start_engine_on(&self, store: impl Store) -> Engine {
        let parts =
            Parts { store: Arc::new(store), ..self.parts(self.provider(&self.faults), self.clock.clone()) };
        Engine::start(parts, Config::default()).await.unwrap()
    }

    /// An engine whose process can be suspended.
    pub(crate) async fn start_pausable_engine(&self) -> (Engine, TestClock) {
        let clock = self.clock.of_another_process();
        let faults = TestFaults::over(clock.clone());
        let parts = self.parts(self.provider(&faults), clock.clone());
        (Engine::start(parts, Config::default()).await.unwrap(), clock)
    }

    pub(crate) fn provider(&self, faults: &Arc<TestFaults>) -> FakeProvider {
        FakeProvider::new(self.world.clone(), faults.clone(), Guards::default())
    }

    fn parts(&self, provider: impl Provider, clock: TestClock) -> Parts {
        Parts {
            store: self.store.clone(),
            provider: Arc::new(provider),
            artifacts: self.artifacts.clone(),
            clock: Arc::new(clock),
            ids: self.ids.clone(),
            liveness: self.liveness.clone(),
        }
    }

    /// The process dies, and other nodes see that.
    pub(crate) fn crash(&self, engine: Engine) {
        self.liveness.declare_dead(engine.node());
        drop(engine);
    }

    pub(crate) fn reboot(&self, engine: Engine) {
        drop(engine);
        self.liveness.reboot();
        self.world.reboot();
    }

    /// Milliseconds since the start of the test.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now().ms_since(START)
    }

    pub(crate) async fn pass_ms(&self, ms: u64) {
        self.clock.sleep_until(self.clock.now().after_ms(ms)).await;
    }

    pub(crate) async fn create(&self, engine: &Engine, policy: Policy) -> SandboxId {
        let request = CreateRequest { policy: policy.into(), ..CreateRequest::default() };
        engine.create(request).await.unwrap()
    }

    pub(crate) async fn ready(&self, engine: &Engine, policy: Policy) -> SandboxId {
        let id = self.create(engine, policy).await;
        assert_eq!(self.wait_ready(engine, id).await, Ok(()));
        id
    }

    pub(crate) async fn wait_ready(&self, engine: &Engine, id: SandboxId) -> Result<(), Cause> {
        let until = self.clock.now().after_ms(10 * MINUTE);
        expect_met(engine.wait_ready(id, until).await.unwrap())
    }

    pub(crate) async fn run(&self, engine: &Engine, id: SandboxId, command: &str) -> ExecutionId {
        let limits = ExecutionLimits::default();
        self.run_within(engine, id, command, limits).await
    }

    pub(crate) async fn run_within(
        &self,
        engine: &Engine,
        id: SandboxId,
        command: &str,
        limits: ExecutionLimits,
    ) -> ExecutionId {
        let run = engine.execute(id, words(command), ExecutionKind::Run, limits, true);
        run.await.unwrap()
    }

    pub(crate) async fn outcome(&self, engine: &Engine, id: SandboxId, execution: ExecutionId) -> Outcome {
        let until = self.clock.now().after_ms(10 * MINUTE);
        expect_met(engine.wait_execution(id, execution, until).await.unwrap())
    }

    /// Stops a sandbox and waits for the proof.
    pub(crate) async fn stop(&self, engine: &Engine, id: SandboxId) -> StopProgress {
        let stop = engine.stop(id, Cause::StoppedByUser, None, 10 * MINUTE);
        stop.await.unwrap()
    }

    /// Requests a stop without waiting.
    pub(crate) async fn request_stop(&self, engine: &Engine, id: SandboxId) -> StopProgress {
        engine.stop(id, Cause::StoppedByUser, None, 0).await.unwrap()
    }

    pub(crate) async fn stored(&self, id: SandboxId) -> StoredSandbox {
        match self.store.load(id).await.unwrap() {
            Some(Row::Readable(stored)) => *stored,
            other => panic!("not a readable row: {other:?}"),
        }
    }

    pub(crate) async fn sandbox(&self, id: SandboxId) -> Sandbox {
        self.stored(id).await.sandbox
    }

    pub(crate) async fn state(&self, id: SandboxId) -> State {
        let stored = self.stored(id).await;
        status(&stored.sandbox, self.clock.now(), &stored.policy).state
    }

    /// Waits until the sandbox satisfies the condition.
    pub(crate) async fn until(
        &self,
        id: SandboxId,
        within_ms: u64,
        condition: impl Fn(&Sandbox) -> bool,
    ) -> Sandbox {
        let deadline = self.now() + within_ms;
        loop {
            let sandbox = self.sandbox(id).await;
            if condition(&sandbox) {
                return sandbox;
            }
            assert!(self.now() < deadline, "condition not met after {within_ms} ms: {sandbox:?}");
            self.pass_ms(100).await;
        }
    }

    /// The history of a sandbox, with milliseconds since the start of the test.
    pub(crate) async fn history(&self, id: SandboxId) -> Vec<(u64, Fact)> {
        let rows = self.store.history(Some(id), Seq::default(), 10_000).await.unwrap();
        rows.into_iter().map(|row| (row.record.at.ms_since(START), row.record.fact)).collect()
    }

    /// The names of the recorded facts.
    pub(crate) async fn names(&self, id: SandboxId) -> Vec<String> {
        let name = |fact: Fact| format!("{fact:?}").split([' ', '{']).next().unwrap().to_owned();
        self.history(id).await.into_iter().map(|(_, fact)| name(fact)).collect()
    }

    /// The times at which matching facts were recorded.
    pub(crate) async fn times(&self, id: SandboxId, condition: impl Fn(&Fact) -> bool) -> Vec<u64> {
        let history = self.history(id).await.into_iter();
        history.filter(|(_, fact)| condition(fact)).map(|(at, _)| at).collect()
    }

    pub(crate) fn instances(&self) -> Vec<PhysicalInstance> {
        self.world.instances(self.clock.now())
    }

    pub(crate) fn running(&self) -> usize {
        self.instances().iter().map(|instance| instance.running).sum()
    }

    /// Starts an instance without a record.
    pub(crate) async fn start_orphan(&self, sandbox: SandboxId, generation: u64) -> InstanceId {
        let instance = InstanceId { sandbox, generation: Generation(generation) };
        let no_faults = TestFaults::over(self.clock.clone());
        let start = StartRequest {
            instance,
            spec: &Spec::default(),
            ends_at: self.clock.now().after_ms(1_000 * MINUTE),
            ends_with_caller: false,
            permit: &PermitAll,
        };
        self.provider(&no_faults).start(start).await.unwrap();
        instance
    }

    /// The totals equal the rows: present is created minus destroyed.
    pub(crate) async fn assert_sum(&self) {
        let totals = self.store.totals().await.unwrap();
        let present = self.store.list(SandboxFilter::Present, None, 10_000).await.unwrap();
        assert_eq!(totals.present(), present.len() as u64, "{totals:?}");
        let pooled = self.store.list(SandboxFilter::Pooled, None, 10_000).await.unwrap();
        assert_eq!(totals.pooled, pooled.len() as u64, "{totals:?}");
        assert_eq!(self.store.inconsistencies().unwrap(), Vec::<String>::new());
    }

    pub(crate) async fn assert_nothing_is_left(&self) {
        assert_eq!(self.instances(), []);
        self.assert_sum().await;
        assert_eq!(self.store.totals().await.unwrap().present(), 0);
    }
}

/// Permits every launch.
struct PermitAll;

#[async_trait]
impl StartPermit for PermitAll {
    async fn still_wanted(&self) -> bool {
        true
    }
}

/// When an instance that was ready at the start is first pinged by routine.
pub(crate) fn first_check_ms(id: SandboxId) -> u64 {
    Policy::default().first_check(id, START).ms_since(START)
}

pub(crate) fn words(command: &str) -> Command {
    Command { argv: command.split(' ').map(str::to_owned).collect(), ..Command::default() }
}

pub(crate) fn instance_of(sandbox: &Sandbox) -> InstanceId {
    InstanceId { sandbox: sandbox.id, generation: sandbox.generation() }
}

fn expect_met<T: std::fmt::Debug>(waited: WaitOutcome<T>) -> T {
    match waited {
        WaitOutcome::Met(found) => found,
        WaitOutcome::DeadlinePassed => panic!("the deadline passed"),
    }
}
