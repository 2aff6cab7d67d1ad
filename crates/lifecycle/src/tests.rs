//! Unit tests of the lifecycle, one invariant or rule each. [`Fixture`] drives one sandbox and checks the invariants
//! after every transition.

mod adoption;
mod cleanup;
mod counting;
mod executions;
mod files;
mod health;
mod pool;
mod recovery;
mod starting;
mod stopping;

use crate::*;

const NOON: Timestamp = Timestamp(1_750_000_000_000);
const HERE: NodeId = NodeId(1);
const ELSEWHERE: NodeId = NodeId(2);

/// One sandbox, with all history and finished executions so far.
struct Fixture {
    sandbox: Sandbox,
    policy: Policy,
    now: Timestamp,
    node: NodeId,
    finished: Vec<Execution>,
    facts: Vec<Fact>,
}

impl Fixture {
    fn created(policy: Policy) -> Self {
        let ctx = Context { now: NOON, node: HERE, policy: &policy };
        let first = create(SandboxId(7), ctx);
        Self::from(first, policy)
    }

    fn from(first: Transition, policy: Policy) -> Self {
        Self {
            sandbox: first.sandbox,
            policy,
            now: NOON,
            node: HERE,
            finished: first.finished,
            facts: first.records.into_iter().map(|record| record.fact).collect(),
        }
    }

    fn live(policy: Policy) -> Self {
        let mut fixture = Self::created(policy);
        fixture.launched();
        fixture.probed(ProbeResult::Passed);
        fixture
    }

    /// A live sandbox in which this execution runs.
    fn running(policy: Policy, id: ExecutionId, limits: ExecutionLimits) -> Self {
        let mut fixture = Self::live(policy);
        fixture.execute(id, limits);
        fixture.started(id);
        fixture
    }

    fn stopping(policy: Policy) -> Self {
        let mut fixture = Self::live(policy);
        fixture.stop();
        fixture
    }

    fn quarantined() -> Self {
        let mut fixture = Self::stopping(Policy { stop_attempts: 1, ..Policy::default() });
        fixture.stopped(StopOutcome::Unknown { why: "no route".into() });
        fixture
    }

    fn ctx(&self) -> Context<'_> {
        Context { now: self.now, node: self.node, policy: &self.policy }
    }

    fn take(&mut self, next: Transition) {
        assert_eq!(invariants::violated(&next.sandbox, &self.policy), None);
        assert_eq!(invariants::violated_between(&self.sandbox, &next.sandbox), None);
        self.sandbox = next.sandbox;
        self.finished.extend(next.finished);
        self.facts.extend(next.records.into_iter().map(|record| record.fact));
    }

    fn apply(&mut self, event: Event) {
        self.take(step(&self.sandbox, event, self.ctx()));
    }

    fn request(&mut self, wanted: Request) -> Result<(), Refusal> {
        self.take(crate::request(&self.sandbox, wanted, self.ctx())?);
        Ok(())
    }

    fn wait_ms(&mut self, ms: u64) {
        self.now = self.now.after_ms(ms);
        self.apply(Event::TimePassed);
    }

    /// The kinds of all pending effects.
    fn effect_kinds(&self) -> Vec<EffectKind> {
        self.sandbox.effects().iter().map(|effect| effect.kind).collect()
    }

    fn pending(&self, is_meant: impl Fn(EffectKind) -> bool) -> PendingEffect {
        let effects = self.sandbox.effects();
        let meant = effects.iter().find(|effect| is_meant(effect.kind));
        meant.expect("such work is under way").pending
    }

    fn status(&self) -> State {
        status(&self.sandbox, self.now, &self.policy).state
    }

    fn cause(&self) -> Option<Cause> {
        status(&self.sandbox, self.now, &self.policy).cause
    }

    fn outcome(&self, id: ExecutionId) -> Option<(OutcomeKind, Cause)> {
        let ended = self.finished.iter().find(|execution| execution.id == id)?;
        ended.outcome().map(|outcome| (outcome.kind, outcome.cause))
    }

    fn has(&self, is_meant: impl Fn(&Fact) -> bool) -> bool {
        self.facts.iter().any(is_meant)
    }
}

/// Results of pending effects.
impl Fixture {
    fn launched(&mut self) {
        let fence = self.pending(|kind| kind == EffectKind::Launch).fence;
        self.apply(Event::Launched { fence });
    }

    fn probed(&mut self, probed: ProbeResult) {
        let fence = self.pending(|kind| matches!(kind, EffectKind::Probe | EffectKind::Ping)).fence;
        self.apply(Event::Probed { fence, result: probed });
    }

    fn observed(&mut self, evidence: Evidence) {
        let fence = self.pending(|kind| kind == EffectKind::Observe).fence;
        self.apply(Event::Observed { fence, evidence });
    }

    fn stopped(&mut self, outcome: StopOutcome) {
        let fence = self.pending(|kind| matches!(kind, EffectKind::Stop { .. })).fence;
        self.apply(Event::Stopped { fence, outcome });
    }

    fn started(&mut self, execution: ExecutionId) {
        let fence = self.pending(|kind| kind == EffectKind::Exec { execution }).fence;
        self.apply(Event::ExecutionStarted { fence, execution });
    }

    fn exited(&mut self, execution: ExecutionId, code: i32) {
        let fence = self.pending(|kind| kind == EffectKind::Watch { execution }).fence;
        self.apply(Event::ExecutionEnded { fence, execution, outcome: Outcome::exited(code) });
    }
}

/// Requests from users.
impl Fixture {
    fn execute(&mut self, id: ExecutionId, limits: ExecutionLimits) {
        self.execute_with(id, limits, FileTransfers::default());
    }

    fn execute_with(&mut self, id: ExecutionId, limits: ExecutionLimits, transfers: FileTransfers) {
        let kind = ExecutionKind::Run;
        self.request(Request::Execute { id, kind, limits, transfers, may_queue: true })
            .expect("there is room in the queue");
    }

    fn stop(&mut self) {
        self.request(Request::Stop { cause: Cause::StoppedByUser, grace_ms: None })
            .expect("a stop is legal in every state");
    }
}

fn one_at_a_time() -> Policy {
    Policy { max_concurrent: 1, ..Policy::default() }
}

fn checks() -> Vec<ReceiptCheck> {
    vec![ReceiptCheck {
        kind: "processes".into(),
        result: Finding::Absent,
        means: "cgroup.procs is empty".into(),
        detail: None,
    }]
}

fn absent() -> Evidence {
    Evidence::Absent(checks())
}

fn unknown() -> Evidence {
    Evidence::Unknown { why: "no route".into() }
}

fn gone() -> StopOutcome {
    StopOutcome::Gone(Box::new(Receipt {
        generation: Generation(1),
        verified_at: NOON,
        checks: checks(),
        freed_bytes: 0,
        used: None,
        attested: None,
    }))
}

fn instance(generation: u64, executions: Vec<(ExecutionId, ProcessObservation)>) -> InstanceObservation {
    InstanceObservation {
        generation: Generation(generation),
        whole: true,
        keeper_end: None,
        executions: executions
            .into_iter()
            .map(|(execution, seen)| ExecutionObservation { execution, process: seen })
            .collect(),
        last_busy_at: None,
    }
}

fn present(instances: Vec<InstanceObservation>) -> Evidence {
    Evidence::Present(instances)
}
