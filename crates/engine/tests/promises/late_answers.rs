//! Callers that give up while their wish is being written: it is durable, so it is carried out all the same, and once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pinfold_engine::{ApplyError, CreateAsk};
use pinfold_lifecycle::{
    AdmissionLimits, Cause, Effect, ExecutionId, ExecutionKind, ExecutionLimits, Generation, Life, NodeId,
    Outcome, PlaceId, Policy, SandboxId, Shape, State, Timestamp, Totals,
};
use pinfold_provider::fake::Call;
use pinfold_store::{
    Change, Changes, Claim, ClaimError, CommitError, CreateError, Created, Due, Fault as WriteFault,
    FillError, Filter, HistoryRow, InlineStore, JoinError, NewPlace, NewSandbox, Node, NodeSeen, Place,
    PlaceEnd, Pruned, Queue, Retention, Row, Seq, Standing, Store, StoreError, StoredExecution, Version,
};
use tokio::time::{sleep, timeout};

use crate::seams::slow;
use crate::stage::{MINUTE, SECOND, Stage, words};

/// How long a write takes to be acknowledged, and how long the impatient wait.
const ACKNOWLEDGED: Duration = Duration::from_millis(50);
const IMPATIENCE: Duration = Duration::from_millis(10);
/// How long an engine takes to read what it is to do.
const READ: Duration = Duration::from_millis(600);

#[tokio::test(start_paused = true)]
async fn a_stop_whose_caller_gives_up_while_it_is_written_is_carried_out() {
    let stage = Stage::new();
    let engine = stage.begin_on(LateStore(stage.store.clone())).await;
    let id = stage.ready(&engine, Policy::default()).await;

    let given_up = timeout(IMPATIENCE, engine.stop(id, Cause::StoppedByUser, false, MINUTE)).await;
    stage.until(id, 4 * SECOND, |sandbox| sandbox.is_settled()).await;

    assert!(given_up.is_err());
    assert_eq!(stage.weather.calls(Call::Stop), 1);
    stage.assert_nothing_is_left().await;
}

/// Each adoption takes a while, and whoever compares records with bodies meanwhile finds none of the bodies.
#[tokio::test(start_paused = true)]
async fn whatever_a_restart_took_ends_with_that_cause_however_slowly_it_is_adopted() {
    let stage = Stage::new();
    let engine = stage.begin().await;
    let mut taken = Vec::new();
    for _ in 0..5 {
        taken.push(stage.ready(&engine, Policy::default()).await);
    }

    stage.reboot(engine);
    let _next = stage.begin_on(LateStore(stage.store.clone())).await;

    for id in taken {
        stage.until(id, 4 * SECOND, |sandbox| sandbox.is_settled()).await;
        let life = stage.sandbox(id).await.life;
        assert!(matches!(life, Life::Ended { cause: Cause::HostRestarted, .. }), "{life:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_whose_caller_gives_up_while_it_is_leased_is_launched() {
    let stage = Stage::new();
    let engine = stage.begin_on(LateStore(stage.store.clone())).await;

    let given_up = timeout(IMPATIENCE, engine.create(CreateAsk::default())).await;
    let listed = stage.store.list(Filter::Present, None, 10).await.unwrap();
    let id = listed[0].id();
    stage.wait_ready(&engine, id).await.unwrap();

    assert!(given_up.is_err());
    assert_eq!((listed.len(), stage.bodies().len()), (1, 1));
    assert_eq!(stage.sandbox(id).await.generation(), Generation(1));
}

#[tokio::test(start_paused = true)]
async fn an_execution_whose_caller_gives_up_while_it_is_written_runs() {
    let stage = Stage::new();
    let engine = stage.begin_on(LateStore(stage.store.clone())).await;
    let id = stage.ready(&engine, Policy::default()).await;

    let given_up = timeout(IMPATIENCE, stage.run(&engine, id, "sleep 3")).await;
    let execution = stage.sandbox(id).await.executions[0].id;
    let outcome = stage.outcome(&engine, id, execution).await;

    assert!(given_up.is_err());
    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(stage.weather.calls(Call::Exec), 1);
    assert_eq!(stage.state(id).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn engines_that_write_to_one_sandbox_at_the_same_time_lose_no_wish() {
    let stage = Stage::new();
    let mut engines = Vec::new();
    for _ in 0..4 {
        engines.push(stage.begin_on(LateStore(stage.store.clone())).await);
    }
    let id = stage.ready(&engines[0], Policy::default()).await;

    let wishes = (0..40).map(|turn| stage.run(&engines[turn % 4], id, "sleep 1"));
    let executions = futures_util::future::join_all(wishes).await;

    for execution in &executions {
        assert_eq!(stage.outcome(&engines[0], id, *execution).await, Outcome::exited(0));
    }
    assert_eq!(stage.weather.calls(Call::Exec), 40);
    assert_eq!(stage.store.executions(id).await.unwrap().len(), 40);
}

#[tokio::test(start_paused = true)]
async fn what_follows_from_an_answer_is_not_cut_off_while_the_answer_is_written() {
    let stage = Stage::new();
    let engine = stage.begin_on(LateStore(stage.store.clone())).await;

    // At many moments between two turns of the timer, which sees what is written before its writer does.
    for _ in 0..30 {
        stage.pass_ms(7).await;
        let began = stage.now();
        stage.ready(&engine, Policy::default()).await;

        let took = stage.now() - began;
        assert!(took < SECOND, "a launch of a few writes took {took} ms: its work waited for the next sweep");
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_was_read_while_it_was_done_is_not_done_again_after_the_proof_that_all_is_gone() {
    let stage = Stage::new();
    let engine = stage.begin_on(LateStore(stage.store.clone())).await;
    let next_sweep_ms = 2 * SECOND + u64::try_from(READ.as_millis()).unwrap();
    stage.pass_ms(next_sweep_ms - 10).await;

    let id = stage.ready(&engine, Policy::default()).await;
    stage.stop(&engine, id).await;
    let proven_at = stage.now();
    stage.pass_ms(SECOND).await;

    assert!((next_sweep_ms..next_sweep_ms + 600).contains(&proven_at), "not while it was read: {proven_at}");
    assert_eq!(stage.weather.calls(Call::Start), 1);
    stage.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_what_another_engine_began_is_not_misled_by_an_answer_that_comes_late() {
    let stage = Stage::new();
    let (engine, other) = (stage.begin_on(LateStore(stage.store.clone())).await, stage.begin().await);
    let id = stage.ready(&engine, Policy::default()).await;

    let waited = async {
        sleep(IMPATIENCE).await;
        let execution = stage.run(&other, id, "work 500 3").await;
        stage.outcome(&engine, id, execution).await
    };
    let (kept, outcome) = tokio::join!(engine.keep_alive(id), waited);

    kept.unwrap();
    assert_eq!(outcome, Outcome::exited(3));
}

#[tokio::test(start_paused = true)]
async fn a_stop_by_another_engine_before_a_creation_is_known_to_be_written_is_not_undone() {
    let stage = Stage::new();
    let (engine, other) = (stage.begin_on(LateStore(stage.store.clone())).await, stage.begin().await);
    stage.weather.always(Call::Stop, slow(MINUTE));
    stage.store.fail_next_writes(1, WriteFault::UnclearWritten);

    let stopped = async {
        sleep(IMPATIENCE).await;
        let rows = stage.store.list(Filter::Present, None, 10).await.unwrap();
        let id = rows.first().unwrap().id();
        let _pending = other.stop(id, Cause::StoppedByUser, false, 0).await;
        id
    };
    let (created, id) = tokio::join!(engine.create(CreateAsk::default()), stopped);
    let (kind, limits) = (ExecutionKind::Run, ExecutionLimits::default());
    let refused = engine.execute(id, words("true"), kind, limits, true).await;

    assert_eq!(created.ok(), Some(id));
    assert!(matches!(refused, Err(ApplyError::Refused(_))), "{refused:?}");
    assert!(matches!(stage.sandbox(id).await.life, Life::Ending { .. }));
}

/// A store whose writes are durable a while before their callers learn of it, and whose reads take a moment.
struct LateStore(Arc<InlineStore>);

#[async_trait]
impl Queue for LateStore {
    async fn join(&self, new: NewPlace, limits: AdmissionLimits) -> Result<(), JoinError> {
        self.0.join(new, limits).await
    }

    async fn is_queue_empty(&self) -> Result<bool, StoreError> {
        self.0.is_queue_empty().await
    }

    async fn line(&self, limits: AdmissionLimits, now: Timestamp) -> Result<Vec<Standing>, StoreError> {
        self.0.line(limits, now).await
    }

    async fn place(&self, id: PlaceId) -> Result<Option<Place>, StoreError> {
        self.0.place(id).await
    }

    async fn end_place(&self, id: PlaceId, end: PlaceEnd, now: Timestamp) -> Result<bool, StoreError> {
        self.0.end_place(id, end, now).await
    }

    async fn end_overdue(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.0.end_overdue(now).await
    }
}

#[async_trait]
impl Store for LateStore {
    fn instance(&self) -> u128 {
        self.0.instance()
    }

    async fn create(&self, new: NewSandbox, limits: AdmissionLimits) -> Result<Created, CreateError> {
        let created = self.0.create(new, limits).await;
        sleep(ACKNOWLEDGED).await;
        created
    }

    async fn fill(&self, new: NewSandbox, size: u64, limits: AdmissionLimits) -> Result<Version, FillError> {
        let filled = self.0.fill(new, size, limits).await;
        sleep(ACKNOWLEDGED).await;
        filled
    }

    async fn claim(&self, claim: Claim) -> Result<Created, ClaimError> {
        let claimed = self.0.claim(claim).await;
        sleep(ACKNOWLEDGED).await;
        claimed
    }

    async fn waiting(
        &self,
        shape: &Shape,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.0.waiting(shape, after, limit).await
    }

    async fn commit(&self, change: Change) -> Result<Version, CommitError> {
        let committed = self.0.commit(change).await;
        sleep(ACKNOWLEDGED).await;
        committed
    }

    async fn load(&self, id: SandboxId) -> Result<Option<Row>, StoreError> {
        let loaded = self.0.load(id).await;
        sleep(Duration::from_millis(1)).await;
        loaded
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreError> {
        self.0.execution(id).await
    }

    async fn executions(&self, sandbox: SandboxId) -> Result<Vec<StoredExecution>, StoreError> {
        self.0.executions(sandbox).await
    }

    async fn list(
        &self,
        filter: Filter,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.0.list(filter, after, limit).await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.0.due(now, limit).await
    }

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        self.0.next_deadline().await
    }

    async fn effects_of(&self, node: NodeId) -> Result<Vec<Effect>, StoreError> {
        let effects = self.0.effects_of(node).await;
        sleep(READ).await;
        effects
    }

    async fn left_by(&self, node: NodeId) -> Result<Vec<SandboxId>, StoreError> {
        self.0.left_by(node).await
    }

    async fn history(
        &self,
        of: Option<SandboxId>,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.0.history(of, after, limit).await
    }

    async fn last_record(&self, of: SandboxId) -> Result<Option<HistoryRow>, StoreError> {
        self.0.last_record(of).await
    }

    async fn changes(&self, seen: Seq) -> Result<Changes, StoreError> {
        self.0.changes(seen).await
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        self.0.totals().await
    }

    async fn beat(&self, node: Node, now: Timestamp) -> Result<(), StoreError> {
        self.0.beat(node, now).await
    }

    async fn leave(&self, node: NodeId) -> Result<bool, StoreError> {
        self.0.leave(node).await
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        self.0.nodes().await
    }

    async fn forgotten_nodes(&self) -> Result<Vec<NodeId>, StoreError> {
        self.0.forgotten_nodes().await
    }

    async fn prune(&self, retention: Retention, limit: usize) -> Result<Pruned, StoreError> {
        self.0.prune(retention, limit).await
    }

    async fn prunable(&self, retention: Retention) -> Result<u64, StoreError> {
        self.0.prunable(retention).await
    }
}
