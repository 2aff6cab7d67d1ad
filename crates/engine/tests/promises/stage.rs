//! A stage: one store, one world, one clock, and as many engines as the test begins on them.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_engine::{Clock, Config, CreateAsk, Engine, Parts, Stop, Waited};
use pinfold_lifecycle::{
    Cause, Command, ExecutionId, ExecutionKind, ExecutionLimits, Fact, Generation, Guards, Outcome, Policy,
    Sandbox, SandboxId, Spec, State, status,
};
use pinfold_provider::fake::{FakeProvider, FakeWorld, Physical};
use pinfold_provider::{InstanceId, Provider, Start, StartPermit};
use pinfold_store::{Filter, InlineStore, Row, Seq, Store, Stored};

use crate::seams::{CountingIds, DAWN, StageCensus, StageClock, StageWeather};

pub(crate) const SECOND: u64 = 1_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;

pub(crate) struct Stage {
    pub(crate) store: Arc<InlineStore>,
    pub(crate) world: Arc<FakeWorld>,
    pub(crate) clock: StageClock,
    pub(crate) weather: Arc<StageWeather>,
    pub(crate) census: Arc<StageCensus>,
    ids: Arc<CountingIds>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let clock = StageClock::new();
        Self {
            store: Arc::new(InlineStore::in_memory(1).unwrap()),
            world: Arc::default(),
            weather: StageWeather::over(clock.clone()),
            clock,
            census: Arc::default(),
            ids: Arc::default(),
        }
    }

    pub(crate) async fn begin(&self) -> Engine {
        self.begin_with(Config::default()).await
    }

    /// For plays of many minutes: it seldom looks what others do, which changes no deadline.
    pub(crate) async fn begin_patient(&self) -> Engine {
        let config = Config { poll_ms: 10 * SECOND, ..Config::default() };
        self.begin_with(config).await
    }

    pub(crate) async fn begin_with(&self, config: Config) -> Engine {
        self.begin_over(self.provider(&self.weather), config).await
    }

    pub(crate) async fn begin_over(&self, provider: impl Provider, config: Config) -> Engine {
        let parts = self.parts(provider, self.clock.clone());
        Engine::begin(parts, config).await.unwrap()
    }

    /// An engine that sees the rows through another store than the stage does.
    pub(crate) async fn begin_on(&self, store: impl Store) -> Engine {
        let parts =
            Parts { store: Arc::new(store), ..self.parts(self.provider(&self.weather), self.clock.clone()) };
        Engine::begin(parts, Config::default()).await.unwrap()
    }

    /// An engine whose process can be stopped in its tracks.
    pub(crate) async fn begin_pausable(&self) -> (Engine, StageClock) {
        let clock = self.clock.of_another_process();
        let weather = StageWeather::over(clock.clone());
        let parts = self.parts(self.provider(&weather), clock.clone());
        (Engine::begin(parts, Config::default()).await.unwrap(), clock)
    }

    pub(crate) fn provider(&self, weather: &Arc<StageWeather>) -> FakeProvider {
        FakeProvider::new(self.world.clone(), weather.clone(), Guards::default())
    }

    fn parts(&self, provider: impl Provider, clock: StageClock) -> Parts {
        Parts {
            store: self.store.clone(),
            provider: Arc::new(provider),
            clock: Arc::new(clock),
            ids: self.ids.clone(),
            census: self.census.clone(),
        }
    }

    /// The process is gone from one moment to the next, and everybody can see it.
    pub(crate) fn crash(&self, engine: Engine) {
        self.census.declare_dead(engine.node());
        drop(engine);
    }

    pub(crate) fn reboot(&self, engine: Engine) {
        drop(engine);
        self.census.reboot();
        self.world.reboot();
    }

    /// Milliseconds since the stage was set.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now().ms_since(DAWN)
    }

    pub(crate) async fn pass_ms(&self, ms: u64) {
        self.clock.sleep_until(self.clock.now().after_ms(ms)).await;
    }

    pub(crate) async fn create(&self, engine: &Engine, policy: Policy) -> SandboxId {
        let ask = CreateAsk { policy, ..CreateAsk::default() };
        engine.create(ask).await.unwrap()
    }

    pub(crate) async fn ready(&self, engine: &Engine, policy: Policy) -> SandboxId {
        let id = self.create(engine, policy).await;
        assert_eq!(self.wait_ready(engine, id).await, Ok(()));
        id
    }

    pub(crate) async fn wait_ready(&self, engine: &Engine, id: SandboxId) -> Result<(), Cause> {
        let until = self.clock.now().after_ms(10 * MINUTE);
        met(engine.wait_ready(id, until).await.unwrap())
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
        met(engine.wait_execution(id, execution, until).await.unwrap())
    }

    /// Stops it and waits for the proof.
    pub(crate) async fn stop(&self, engine: &Engine, id: SandboxId) -> Stop {
        let stop = engine.stop(id, Cause::StoppedByUser, false, 10 * MINUTE);
        stop.await.unwrap()
    }

    /// Asks for a stop and waits for nothing.
    pub(crate) async fn ask_to_stop(&self, engine: &Engine, id: SandboxId) -> Stop {
        engine.stop(id, Cause::StoppedByUser, false, 0).await.unwrap()
    }

    pub(crate) async fn stored(&self, id: SandboxId) -> Stored {
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

    /// Waits until the sandbox is like this.
    pub(crate) async fn until(
        &self,
        id: SandboxId,
        within_ms: u64,
        like_this: impl Fn(&Sandbox) -> bool,
    ) -> Sandbox {
        let deadline = self.now() + within_ms;
        loop {
            let sandbox = self.sandbox(id).await;
            if like_this(&sandbox) {
                return sandbox;
            }
            assert!(self.now() < deadline, "not like this after {within_ms} ms: {sandbox:?}");
            self.pass_ms(100).await;
        }
    }

    /// What is recorded of a sandbox, each with its milliseconds since the stage was set.
    pub(crate) async fn history(&self, id: SandboxId) -> Vec<(u64, Fact)> {
        let rows = self.store.history(Some(id), Seq::default(), 10_000).await.unwrap();
        rows.into_iter().map(|row| (row.record.at.ms_since(DAWN), row.record.fact)).collect()
    }

    /// What is recorded of a sandbox, by name.
    pub(crate) async fn names(&self, id: SandboxId) -> Vec<String> {
        let name = |fact: Fact| format!("{fact:?}").split([' ', '{']).next().unwrap().to_owned();
        self.history(id).await.into_iter().map(|(_, fact)| name(fact)).collect()
    }

    /// When a fact like this was recorded.
    pub(crate) async fn times(&self, id: SandboxId, like_this: impl Fn(&Fact) -> bool) -> Vec<u64> {
        let history = self.history(id).await.into_iter();
        history.filter(|(_, fact)| like_this(fact)).map(|(at, _)| at).collect()
    }

    pub(crate) fn bodies(&self) -> Vec<Physical> {
        self.world.everything(self.clock.now())
    }

    pub(crate) fn running(&self) -> usize {
        self.bodies().iter().map(|body| body.running).sum()
    }

    /// A body comes into being that no record speaks of.
    pub(crate) async fn make_stray(&self, sandbox: SandboxId, generation: u64) -> InstanceId {
        let body = InstanceId { sandbox, generation: Generation(generation) };
        let calm = StageWeather::over(self.clock.clone());
        let start = Start {
            body,
            spec: &Spec::default(),
            ends_at: self.clock.now().after_ms(1_000 * MINUTE),
            ends_with_caller: false,
            permit: &Anything,
        };
        self.provider(&calm).start(start).await.unwrap();
        body
    }

    /// The sum is right: what is not proven gone is what was created and not destroyed.
    pub(crate) async fn assert_sum(&self) {
        let totals = self.store.totals().await.unwrap();
        let present = self.store.list(Filter::Present, None, 10_000).await.unwrap();
        assert_eq!(totals.present(), present.len() as u64, "{totals:?}");
        let pooled = self.store.list(Filter::Pooled, None, 10_000).await.unwrap();
        assert_eq!(totals.pooled, pooled.len() as u64, "{totals:?}");
        assert_eq!(self.store.disagreements().unwrap(), Vec::<String>::new());
    }

    pub(crate) async fn assert_nothing_is_left(&self) {
        assert_eq!(self.bodies(), []);
        self.assert_sum().await;
        assert_eq!(self.store.totals().await.unwrap().present(), 0);
    }
}

/// Permits every launch.
struct Anything;

#[async_trait]
impl StartPermit for Anything {
    async fn still_wanted(&self) -> bool {
        true
    }
}

/// When a body that became ready at dawn is probed again by routine.
pub(crate) fn first_check_ms(id: SandboxId) -> u64 {
    Policy::default().first_check(id, DAWN).ms_since(DAWN)
}

pub(crate) fn words(command: &str) -> Command {
    Command { argv: command.split(' ').map(str::to_owned).collect(), ..Command::default() }
}

pub(crate) fn body_of(sandbox: &Sandbox) -> InstanceId {
    InstanceId { sandbox: sandbox.id, generation: sandbox.generation() }
}

fn met<T: std::fmt::Debug>(waited: Waited<T>) -> T {
    match waited {
        Waited::Met(found) => found,
        Waited::DeadlinePassed => panic!("the deadline passed"),
    }
}
