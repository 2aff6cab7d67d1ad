//! The provider and the store with a note of every call that is on a sandbox's way through its life.

use std::sync::Arc;

use async_trait::async_trait;
use pinfold_bench_report::now;
use pinfold_lifecycle::{
    AdmissionLimits, Effect, Evidence, ExecutionId, NodeId, Outcome, PlaceId, Probed, SandboxId, Shape,
    StopOutcome, Timestamp, Totals,
};
use pinfold_linux::LinuxProvider;
use pinfold_provider::{
    AskBodyError, Capacity, DiscoverError, Discovered, Exec, ExecError, Fed, Feed, FeedError, InstanceId,
    Killed, Provider, ResizeError, SignalError, Start, StartError, StartPermit, TerminalSize, Usage,
    WaitError,
};
use pinfold_store::{
    Change, Changes, Claim, ClaimError, CommitError, CreateError, Created, Due, FillError, Filter,
    HistoryRow, JoinError, NewPlace, NewSandbox, Node, NodeSeen, Place, PlaceEnd, Pruned, Queue, Retention,
    Row, Seq, SqliteStore, Standing, Store, StoreError, StoredExecution, Version,
};

use crate::timeline::Timeline;

pub(crate) struct TimedProvider {
    real: Arc<LinuxProvider>,
    timeline: Arc<Timeline>,
}

impl TimedProvider {
    pub(crate) fn new(real: Arc<LinuxProvider>, timeline: Arc<Timeline>) -> Self {
        Self { real, timeline }
    }
}

/// Where the birth ends and the word to go begins.
struct TimedPermit<'a> {
    real: &'a dyn StartPermit,
    timeline: &'a Timeline,
    begun: std::time::Instant,
    asked: std::sync::Mutex<Option<std::time::Instant>>,
}

#[async_trait]
impl StartPermit for TimedPermit<'_> {
    async fn still_wanted(&self) -> bool {
        self.timeline.note("start: mark, root, groups, birth", self.begun);
        let begun = now();
        let wanted = self.real.still_wanted().await;
        self.timeline.note("start: permit", begun);
        *self.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(now());
        wanted
    }
}

#[async_trait]
impl Provider for TimedProvider {
    fn name(&self) -> &'static str {
        self.real.name()
    }

    async fn discover(&self) -> Result<Discovered, DiscoverError> {
        self.real.discover().await
    }

    async fn start(&self, start: Start<'_>) -> Result<(), StartError> {
        let permit = TimedPermit {
            real: start.permit,
            timeline: &self.timeline,
            begun: now(),
            asked: std::sync::Mutex::default(),
        };
        let started = self.real.start(Start { permit: &permit, ..start }).await;
        let asked = *permit.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(asked) = asked {
            self.timeline.note("start: go, with the world built meanwhile", asked);
        }
        started
    }

    async fn observe(&self, sandbox: SandboxId) -> Evidence {
        self.real.observe(sandbox).await
    }

    async fn probe(&self, body: InstanceId) -> Probed {
        let begun = now();
        let probed = self.real.probe(body).await;
        self.timeline.note("first probe: control, file, command", begun);
        probed
    }

    async fn ping(&self, body: InstanceId) -> Probed {
        self.real.ping(body).await
    }

    async fn exec(&self, body: InstanceId, exec: Exec<'_>) -> Result<(), ExecError> {
        let begun = now();
        let done = self.real.exec(body, exec).await;
        self.timeline.note("exec: fork, confine, exec", begun);
        done
    }

    async fn wait(&self, body: InstanceId, execution: ExecutionId) -> Result<Outcome, WaitError> {
        let begun = now();
        let outcome = self.real.wait(body, execution).await;
        self.timeline.note("wait: the rest of the command", begun);
        outcome
    }

    async fn kill(&self, body: InstanceId, execution: ExecutionId) -> Killed {
        self.real.kill(body, execution).await
    }

    async fn signal(&self, body: InstanceId, execution: ExecutionId, signal: i32) -> Result<(), SignalError> {
        self.real.signal(body, execution, signal).await
    }

    async fn feed(&self, body: InstanceId, execution: ExecutionId, feed: Feed<'_>) -> Result<Fed, FeedError> {
        self.real.feed(body, execution, feed).await
    }

    async fn resize(
        &self,
        body: InstanceId,
        execution: ExecutionId,
        size: TerminalSize,
    ) -> Result<(), ResizeError> {
        self.real.resize(body, execution, size).await
    }

    async fn stop(&self, body: InstanceId, grace_ms: u64) -> StopOutcome {
        let begun = now();
        let outcome = self.real.stop(body, grace_ms).await;
        self.timeline.note("stop: kill, removal, look", begun);
        outcome
    }

    async fn usage(&self, body: InstanceId) -> Result<Usage, AskBodyError> {
        self.real.usage(body).await
    }

    async fn capacity(&self) -> Result<Capacity, DiscoverError> {
        self.real.capacity().await
    }

    async fn keep_alive(&self, body: InstanceId, ends_at: Timestamp) -> Result<(), AskBodyError> {
        self.real.keep_alive(body, ends_at).await
    }
}

pub(crate) struct TimedStore {
    real: Arc<SqliteStore>,
    timeline: Arc<Timeline>,
}

impl TimedStore {
    pub(crate) fn new(real: Arc<SqliteStore>, timeline: Arc<Timeline>) -> Self {
        Self { real, timeline }
    }
}

/// Named after the first thing that a commit records.
fn name_of(change: &Change) -> String {
    let fact = change.transition.records.first().map(|record| format!("{:?}", record.fact));
    let fact = fact.as_deref().and_then(|fact| fact.split([' ', '{', '(']).next());
    format!("commit {}", fact.unwrap_or("with no record"))
}

#[async_trait]
impl Queue for TimedStore {
    async fn join(&self, new: NewPlace, limits: AdmissionLimits) -> Result<(), JoinError> {
        self.real.join(new, limits).await
    }

    async fn is_queue_empty(&self) -> Result<bool, StoreError> {
        self.real.is_queue_empty().await
    }

    async fn line(&self, limits: AdmissionLimits, now: Timestamp) -> Result<Vec<Standing>, StoreError> {
        self.real.line(limits, now).await
    }

    async fn place(&self, id: PlaceId) -> Result<Option<Place>, StoreError> {
        self.real.place(id).await
    }

    async fn end_place(&self, id: PlaceId, end: PlaceEnd, now: Timestamp) -> Result<bool, StoreError> {
        self.real.end_place(id, end, now).await
    }

    async fn end_overdue(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.real.end_overdue(now).await
    }
}

#[async_trait]
impl Store for TimedStore {
    fn instance(&self) -> u128 {
        self.real.instance()
    }

    async fn create(&self, new: NewSandbox, limits: AdmissionLimits) -> Result<Created, CreateError> {
        let begun = now();
        let created = self.real.create(new, limits).await;
        self.timeline.note("commit Created", begun);
        created
    }

    async fn fill(&self, new: NewSandbox, size: u64, limits: AdmissionLimits) -> Result<Version, FillError> {
        self.real.fill(new, size, limits).await
    }

    async fn claim(&self, claim: Claim) -> Result<Created, ClaimError> {
        self.real.claim(claim).await
    }

    async fn waiting(
        &self,
        shape: &Shape,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.real.waiting(shape, after, limit).await
    }

    async fn commit(&self, change: Change) -> Result<Version, CommitError> {
        let name = name_of(&change);
        let begun = now();
        let version = self.real.commit(change).await;
        self.timeline.note(name, begun);
        version
    }

    async fn load(&self, id: SandboxId) -> Result<Option<Row>, StoreError> {
        let begun = now();
        let row = self.real.load(id).await;
        self.timeline.note("each read of its row", begun);
        row
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<StoredExecution>, StoreError> {
        self.real.execution(id).await
    }

    async fn executions(&self, sandbox: SandboxId) -> Result<Vec<StoredExecution>, StoreError> {
        self.real.executions(sandbox).await
    }

    async fn list(
        &self,
        filter: Filter,
        after: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.real.list(filter, after, limit).await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.real.due(now, limit).await
    }

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        self.real.next_deadline().await
    }

    async fn effects_of(&self, node: NodeId) -> Result<Vec<Effect>, StoreError> {
        self.real.effects_of(node).await
    }

    async fn left_by(&self, node: NodeId) -> Result<Vec<SandboxId>, StoreError> {
        self.real.left_by(node).await
    }

    async fn history(
        &self,
        of: Option<SandboxId>,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.real.history(of, after, limit).await
    }

    async fn last_record(&self, of: SandboxId) -> Result<Option<HistoryRow>, StoreError> {
        self.real.last_record(of).await
    }

    async fn changes(&self, seen: Seq) -> Result<Changes, StoreError> {
        self.real.changes(seen).await
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        self.real.totals().await
    }

    async fn beat(&self, node: Node, now: Timestamp) -> Result<(), StoreError> {
        self.real.beat(node, now).await
    }

    async fn leave(&self, node: NodeId) -> Result<bool, StoreError> {
        self.real.leave(node).await
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        self.real.nodes().await
    }

    async fn forgotten_nodes(&self) -> Result<Vec<NodeId>, StoreError> {
        self.real.forgotten_nodes().await
    }

    async fn prune(&self, retention: Retention, limit: usize) -> Result<Pruned, StoreError> {
        self.real.prune(retention, limit).await
    }

    async fn prunable(&self, retention: Retention) -> Result<u64, StoreError> {
        self.real.prunable(retention).await
    }
}
