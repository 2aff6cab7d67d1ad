//! A fixture: sandboxes in a store that are driven through their real lifecycle, one transition at a time.

use std::sync::Arc;

use pinfold_lifecycle::{
    AdmissionLimits, Command, Context, Event, ExecutionId, ExecutionKind, ExecutionLimits, Fence,
    FileTransfers, Finding, Limits, NodeId, Policy, ProbeResult, Receipt, ReceiptCheck, Request, Sandbox,
    SandboxId, Spec, StopOutcome, Timestamp, Transition, create, request, step,
};

use super::TestedStore;
use crate::{
    AdmissionTerms, Change, Created, IdempotencyKey, NewExecution, NewSandbox, Row, Store, StoredSandbox,
    Version,
};

pub const NOON: Timestamp = Timestamp(1_800_000_000_000);
pub const NODE: NodeId = NodeId(1);
pub const OTHER_NODE: NodeId = NodeId(2);

/// The memory limit of each sandbox of the fixture.
pub const MEMORY_MB: u64 = 100;

/// One store, one node and the current time.
pub struct StoreFixture {
    pub store: Arc<dyn Store>,
    pub now: Timestamp,
    pub node: NodeId,
    pub policy: Policy,
}

impl StoreFixture {
    pub fn new(tested: &dyn TestedStore) -> Self {
        Self { store: tested.store(), now: NOON, node: NODE, policy: Policy::default() }
    }

    pub fn at(mut self, node: NodeId, now: Timestamp) -> Self {
        (self.node, self.now) = (node, now);
        self
    }

    pub fn advance_ms(&mut self, ms: u64) {
        self.now = self.now.after_ms(ms);
    }

    pub fn ctx(&self) -> Context<'_> {
        Context { now: self.now, node: self.node, policy: &self.policy }
    }

    pub fn new_sandbox(&self, id: u128) -> NewSandbox {
        NewSandbox {
            transition: create(SandboxId(id), self.ctx()),
            spec: Arc::new(spec(id)),
            policy: Arc::new(self.policy.clone()),
            key: None,
            commands: Vec::new(),
            admission: AdmissionTerms::default(),
        }
    }

    pub fn with_key(&self, id: u128, key: &str, request: &str, lives_ms: u64) -> NewSandbox {
        NewSandbox {
            key: Some(IdempotencyKey {
                key: key.into(),
                request: request.into(),
                expires_at: self.now.after_ms(lives_ms),
            }),
            ..self.new_sandbox(id)
        }
    }

    pub async fn create(&self, id: u128) -> Version {
        let created = self.store.create(self.new_sandbox(id), AdmissionLimits::default()).await;
        match created.unwrap() {
            Created::New(version) => version,
            Created::Existing(known) => panic!("{known} was there before"),
        }
    }

    pub async fn load(&self, id: u128) -> StoredSandbox {
        match self.store.load(SandboxId(id)).await.unwrap() {
            Some(Row::Readable(stored)) => *stored,
            other => panic!("not a readable row: {other:?}"),
        }
    }

    pub async fn sandbox(&self, id: u128) -> Sandbox {
        self.load(id).await.sandbox
    }

    pub async fn commit(&self, transition: Transition, version: Version) -> Version {
        self.store.commit(change(transition, version)).await.unwrap()
    }

    /// Loads, applies an event and commits.
    pub async fn step(&self, id: u128, event: Event) -> Version {
        let StoredSandbox { sandbox, version, .. } = self.load(id).await;
        self.commit(step(&sandbox, event, self.ctx()), version).await
    }

    /// Loads, applies a request and commits.
    pub async fn request(&self, id: u128, wanted: Request) -> Version {
        let StoredSandbox { sandbox, version, .. } = self.load(id).await;
        self.commit(request(&sandbox, wanted, self.ctx()).unwrap(), version).await
    }

    pub async fn execute(&self, id: u128, execution: u128) -> Version {
        let StoredSandbox { sandbox, version, .. } = self.load(id).await;
        let change = self.execution(&sandbox, execution, version);
        self.store.commit(change).await.unwrap()
    }

    pub fn execution(&self, sandbox: &Sandbox, execution: u128, version: Version) -> Change {
        let id = ExecutionId(execution);
        let wanted = Request::Execute {
            id,
            kind: ExecutionKind::Run,
            limits: ExecutionLimits::default(),
            transfers: FileTransfers::default(),
            may_queue: true,
        };
        let command = Arc::new(command(execution));
        Change {
            commands: vec![NewExecution { id, command }],
            ..change(request(sandbox, wanted, self.ctx()).unwrap(), version)
        }
    }

    /// Creates a sandbox and makes it ready.
    pub async fn create_ready(&self, id: u128) {
        self.create(id).await;
        let fence = self.last_fence(id).await;
        self.step(id, Event::Launched { fence }).await;
        let (fence, probed) = (self.last_fence(id).await, ProbeResult::Passed);
        self.step(id, Event::Probed { fence, result: probed }).await;
    }

    /// Ends a sandbox and proves it gone.
    pub async fn end(&self, id: u128) -> Version {
        let (cause, grace_ms) = (pinfold_lifecycle::Cause::StoppedByUser, None);
        self.request(id, Request::Stop { cause, grace_ms }).await;
        self.stop_succeeds(id).await
    }

    /// Lets the running stop succeed.
    pub async fn stop_succeeds(&self, id: u128) -> Version {
        let outcome = StopOutcome::Gone(Box::new(receipt(&self.sandbox(id).await, self.now)));
        let fence = self.last_fence(id).await;
        self.step(id, Event::Stopped { fence, outcome }).await
    }

    /// The fence of the last effect of the sandbox.
    pub async fn last_fence(&self, id: u128) -> Fence {
        self.sandbox(id).await.last_fence
    }
}

pub fn change(transition: Transition, version: Version) -> Change {
    Change { transition, version, commands: vec![] }
}

pub fn spec(id: u128) -> Spec {
    Spec {
        name: Some(format!("sandbox {id}")),
        limits: Limits {
            memory_mb: Some(MEMORY_MB),
            disk_mb: Some(10 * MEMORY_MB),
            processes: Some(8),
            ..Limits::default()
        },
        ..Spec::default()
    }
}

pub fn command(id: u128) -> Command {
    Command { argv: vec!["echo".into(), id.to_string()], ..Command::default() }
}

pub fn receipt(sandbox: &Sandbox, now: Timestamp) -> Receipt {
    Receipt {
        generation: sandbox.generation(),
        verified_at: now,
        checks: vec![ReceiptCheck {
            kind: "processes".into(),
            result: Finding::Absent,
            means: "look".into(),
            detail: None,
        }],
        freed_bytes: 0,
        used: None,
        attested: None,
    }
}
