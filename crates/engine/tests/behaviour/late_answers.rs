//! Callers that give up while their request is being written: the request is durable, so it is carried out,
//! once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pinfold_engine::{ApplyError, CreateRequest};
use pinfold_lifecycle::{
    AdmissionLimits, Cause, Effect, ExecutionId, ExecutionKind, ExecutionLimits, Generation, Life, NodeId,
    Outcome, Policy, QueueId, SandboxId, Shape, State, Timestamp, Totals,
};
use pinfold_provider::fake::Call;
use pinfold_store::{
    Change, Changes, ClaimError, CommitError, CreateError, Created, DueSandbox, EnqueueError, FillError,
    HistoryRow, NewQueueEntry, NewSandbox, Node, PoolClaim, Pruned, Queue, QueueOutcome, QueuePosition,
    QueueRow, RegisteredNode, Retention, Row, SandboxFilter, Seq, Store, StoreError, StoredExecution,
    Version,
};
use pinfold_store_sqlite::{InlineStore, WriteFault};
use tokio::time::{sleep, timeout};

use crate::fakes::slow;
use crate::fixture::{Fixture, MINUTE, SECOND, words};

/// How long a write takes to be acknowledged, and how long an impatient caller waits.
const ACKNOWLEDGED: Duration = Duration::from_millis(50);
const IMPATIENCE: Duration = Duration::from_millis(10);
/// How long an engine's read takes.
const READ: Duration = Duration::from_millis(600);

#[tokio::test(start_paused = true)]
async fn a_stop_whose_caller_gives_up_while_it_is_written_is_carried_out() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_on(LateStore(fixture.store.clone())).await;
    let id = fixture.ready(&engine, Policy::default()).await;

    let given_up = timeout(IMPATIENCE, engine.stop(id, Cause::StoppedByUser, false, MINUTE)).await;
    fixture.until(id, 4 * SECOND, |sandbox| sandbox.is_settled()).await;

    assert!(given_up.is_err());
    assert_eq!(fixture.faults.calls(Call::Stop), 1);
    fixture.assert_nothing_is_left().await;
}

/// Each adoption takes a while, and reconciliation meanwhile finds no instances.
#[tokio::test(start_paused = true)]
async fn sandboxes_lost_in_a_reboot_end_with_that_cause_however_slow_the_adoption() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine().await;
    let mut taken = Vec::new();
    for _ in 0..5 {
        taken.push(fixture.ready(&engine, Policy::default()).await);
    }

    fixture.reboot(engine);
    let _next = fixture.start_engine_on(LateStore(fixture.store.clone())).await;

    for id in taken {
        fixture.until(id, 4 * SECOND, |sandbox| sandbox.is_settled()).await;
        let life = fixture.sandbox(id).await.life;
        assert!(matches!(life, Life::Ended { cause: Cause::HostRestarted, .. }), "{life:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_whose_caller_gives_up_while_it_is_leased_is_launched() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_on(LateStore(fixture.store.clone())).await;

    let given_up = timeout(IMPATIENCE, engine.create(CreateRequest::default())).await;
    let listed = fixture.store.list(SandboxFilter::Present, None, 10).await.unwrap();
    let id = listed[0].id();
    fixture.wait_ready(&engine, id).await.unwrap();

    assert!(given_up.is_err());
    assert_eq!((listed.len(), fixture.instances().len()), (1, 1));
    assert_eq!(fixture.sandbox(id).await.generation(), Generation(1));
}

#[tokio::test(start_paused = true)]
async fn an_execution_whose_caller_gives_up_while_it_is_written_runs() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_on(LateStore(fixture.store.clone())).await;
    let id = fixture.ready(&engine, Policy::default()).await;

    let given_up = timeout(IMPATIENCE, fixture.run(&engine, id, "sleep 3")).await;
    let execution = fixture.sandbox(id).await.executions[0].id;
    let outcome = fixture.outcome(&engine, id, execution).await;

    assert!(given_up.is_err());
    assert_eq!(outcome, Outcome::exited(0));
    assert_eq!(fixture.faults.calls(Call::Exec), 1);
    assert_eq!(fixture.state(id).await, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn concurrent_writes_of_engines_to_one_sandbox_lose_no_request() {
    let fixture = Fixture::new();
    let mut engines = Vec::new();
    for _ in 0..4 {
        engines.push(fixture.start_engine_on(LateStore(fixture.store.clone())).await);
    }
    let id = fixture.ready(&engines[0], Policy::default()).await;

    let wishes = (0..40).map(|turn| fixture.run(&engines[turn % 4], id, "sleep 1"));
    let executions = futures_util::future::join_all(wishes).await;

    for execution in &executions {
        assert_eq!(fixture.outcome(&engines[0], id, *execution).await, Outcome::exited(0));
    }
    assert_eq!(fixture.faults.calls(Call::Exec), 40);
    assert_eq!(fixture.store.executions(id).await.unwrap().len(), 40);
}

#[tokio::test(start_paused = true)]
async fn effects_of_a_result_are_not_cut_off_while_it_is_committed() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_on(LateStore(fixture.store.clone())).await;

    // At many times within one timer interval: the timer may see a write before its writer does.
    for _ in 0..30 {
        fixture.pass_ms(7).await;
        let began = fixture.now();
        fixture.ready(&engine, Policy::default()).await;

        let took = fixture.now() - began;
        assert!(
            took < SECOND,
            "a launch of a few writes took {took} ms: its effects waited for the next heartbeat"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_read_while_running_is_not_repeated_after_the_proof_of_absence() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_on(LateStore(fixture.store.clone())).await;
    let next_sweep_ms = 2 * SECOND + u64::try_from(READ.as_millis()).unwrap();
    fixture.pass_ms(next_sweep_ms - 10).await;

    let id = fixture.ready(&engine, Policy::default()).await;
    fixture.stop(&engine, id).await;
    let proven_at = fixture.now();
    fixture.pass_ms(SECOND).await;

    assert!(
        (next_sweep_ms..next_sweep_ms + 600).contains(&proven_at),
        "proven gone while the launch was being read: {proven_at}"
    );
    assert_eq!(fixture.faults.calls(Call::Start), 1);
    fixture.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_another_engines_change_is_not_misled_by_a_late_answer() {
    let fixture = Fixture::new();
    let (engine, other) =
        (fixture.start_engine_on(LateStore(fixture.store.clone())).await, fixture.start_engine().await);
    let id = fixture.ready(&engine, Policy::default()).await;

    let waited = async {
        sleep(IMPATIENCE).await;
        let execution = fixture.run(&other, id, "work 500 3").await;
        fixture.outcome(&engine, id, execution).await
    };
    let (kept, outcome) = tokio::join!(engine.keep_alive(id), waited);

    kept.unwrap();
    assert_eq!(outcome, Outcome::exited(3));
}

#[tokio::test(start_paused = true)]
async fn a_stop_by_another_engine_before_the_create_is_acknowledged_is_not_undone() {
    let fixture = Fixture::new();
    let (engine, other) =
        (fixture.start_engine_on(LateStore(fixture.store.clone())).await, fixture.start_engine().await);
    fixture.faults.always(Call::Stop, slow(MINUTE));
    fixture.store.fail_next_writes(1, WriteFault::UnknownWritten);

    let stopped = async {
        sleep(IMPATIENCE).await;
        let rows = fixture.store.list(SandboxFilter::Present, None, 10).await.unwrap();
        let id = rows.first().unwrap().id();
        let _pending = other.stop(id, Cause::StoppedByUser, false, 0).await;
        id
    };
    let (created, id) = tokio::join!(engine.create(CreateRequest::default()), stopped);
    let (kind, limits) = (ExecutionKind::Run, ExecutionLimits::default());
    let refused = engine.execute(id, words("true"), kind, limits, true).await;

    assert_eq!(created.ok(), Some(id));
    assert!(matches!(refused, Err(ApplyError::Refused(_))), "{refused:?}");
    assert!(matches!(fixture.sandbox(id).await.life, Life::Ending { .. }));
}

/// A store whose writes are durable before they are acknowledged, and whose reads take a moment.
struct LateStore(Arc<InlineStore>);

#[async_trait]
impl Queue for LateStore {
    async fn enqueue(&self, new: NewQueueEntry, limits: AdmissionLimits) -> Result<(), EnqueueError> {
        self.0.enqueue(new, limits).await
    }

    async fn is_queue_empty(&self) -> Result<bool, StoreError> {
        self.0.is_queue_empty().await
    }

    async fn queue_positions(
        &self,
        limits: AdmissionLimits,
        now: Timestamp,
    ) -> Result<Vec<QueuePosition>, StoreError> {
        self.0.queue_positions(limits, now).await
    }

    async fn queue_entry(&self, id: QueueId) -> Result<Option<QueueRow>, StoreError> {
        self.0.queue_entry(id).await
    }

    async fn end_queue_entry(
        &self,
        id: QueueId,
        end: QueueOutcome,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.0.end_queue_entry(id, end, now).await
    }

    async fn expire_queue_entries(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.0.expire_queue_entries(now).await
    }
}

#[async_trait]
impl Store for LateStore {
    fn store_id(&self) -> u128 {
        self.0.store_id()
    }

    async fn create(&self, new: NewSandbox, limits: AdmissionLimits) -> Result<Created, CreateError> {
        let created = self.0.create(new, limits).await;
        sleep(ACKNOWLEDGED).await;
        created
    }

    async fn fill_pool(
        &self,
        new: NewSandbox,
        size: u64,
        limits: AdmissionLimits,
    ) -> Result<Version, FillError> {
        let filled = self.0.fill_pool(new, size, limits).await;
        sleep(ACKNOWLEDGED).await;
        filled
    }

    async fn claim(&self, claim: PoolClaim) -> Result<Created, ClaimError> {
        let claimed = self.0.claim(claim).await;
        sleep(ACKNOWLEDGED).await;
        claimed
    }

    async fn pool_members(
        &self,
        shape: &Shape,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.0.pool_members(shape, after, limit).await
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
        filter: SandboxFilter,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.0.list(filter, after, limit).await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<DueSandbox>, StoreError> {
        self.0.due(now, limit).await
    }

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        self.0.next_deadline().await
    }

    async fn effects_of_node(&self, node: NodeId) -> Result<Vec<Effect>, StoreError> {
        let effects = self.0.effects_of_node(node).await;
        sleep(READ).await;
        effects
    }

    async fn sandboxes_of_node(&self, node: NodeId) -> Result<Vec<SandboxId>, StoreError> {
        self.0.sandboxes_of_node(node).await
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

    async fn heartbeat(&self, node: Node, now: Timestamp) -> Result<(), StoreError> {
        self.0.heartbeat(node, now).await
    }

    async fn remove_node(&self, node: NodeId) -> Result<bool, StoreError> {
        self.0.remove_node(node).await
    }

    async fn nodes(&self) -> Result<Vec<RegisteredNode>, StoreError> {
        self.0.nodes().await
    }

    async fn unregistered_nodes(&self) -> Result<Vec<NodeId>, StoreError> {
        self.0.unregistered_nodes().await
    }

    async fn prune(&self, retention: Retention, limit: usize) -> Result<Pruned, StoreError> {
        self.0.prune(retention, limit).await
    }

    async fn count_prunable(&self, retention: Retention) -> Result<u64, StoreError> {
        self.0.count_prunable(retention).await
    }

    fn inconsistencies(&self) -> Result<Vec<String>, StoreError> {
        self.0.inconsistencies()
    }
}
