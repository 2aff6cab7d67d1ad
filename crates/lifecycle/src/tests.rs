//! Examples: one promise of the lifecycle each. [`Scene`] is the stage on which they play.

mod adoption;
mod cleanup;
mod counting;
mod executions;
mod health;
mod pool;
mod recovery;
mod starting;
mod stopping;

use crate::*;

const NOON: Timestamp = Timestamp(1_750_000_000_000);
const HERE: NodeId = NodeId(1);
const ELSEWHERE: NodeId = NodeId(2);

/// One sandbox, and all that was said about it so far.
struct Scene {
    sandbox: Sandbox,
    policy: Policy,
    now: Timestamp,
    node: NodeId,
    finished: Vec<Execution>,
    facts: Vec<Fact>,
}

impl Scene {
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
        let mut scene = Self::created(policy);
        scene.launched();
        scene.probed(Probed::Passed);
        scene
    }

    /// A live sandbox in which this execution runs.
    fn running(policy: Policy, id: ExecutionId, limits: ExecutionLimits) -> Self {
        let mut scene = Self::live(policy);
        scene.execute(id, limits);
        scene.started(id);
        scene
    }

    fn stopping(policy: Policy) -> Self {
        let mut scene = Self::live(policy);
        scene.stop();
        scene
    }

    fn quarantined() -> Self {
        let mut scene = Self::stopping(Policy { stop_attempts: 1, ..Policy::default() });
        scene.stopped(StopOutcome::Unknown { why: "no route".into() });
        scene
    }

    fn ctx(&self) -> Context<'_> {
        Context { now: self.now, node: self.node, policy: &self.policy }
    }

    fn take(&mut self, turn: Transition) {
        assert_eq!(invariants::broken(&turn.sandbox, &self.policy), None);
        assert_eq!(invariants::broken_step(&self.sandbox, &turn.sandbox), None);
        self.sandbox = turn.sandbox;
        self.finished.extend(turn.finished);
        self.facts.extend(turn.records.into_iter().map(|record| record.fact));
    }

    fn tell(&mut self, event: Event) {
        self.take(step(&self.sandbox, event, self.ctx()));
    }

    fn ask(&mut self, wish: Request) -> Result<(), Refusal> {
        self.take(request(&self.sandbox, wish, self.ctx())?);
        Ok(())
    }

    fn wait_ms(&mut self, ms: u64) {
        self.now = self.now.after_ms(ms);
        self.tell(Event::TimePassed);
    }

    /// The work under way, without who does it and until when.
    fn work(&self) -> Vec<EffectKind> {
        self.sandbox.effects().iter().map(|effect| effect.work).collect()
    }

    fn duty(&self, is_meant: impl Fn(EffectKind) -> bool) -> PendingEffect {
        let effects = self.sandbox.effects();
        let meant = effects.iter().find(|effect| is_meant(effect.work));
        meant.expect("such work is under way").duty
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

/// What the world answers to the work that is under way.
impl Scene {
    fn launched(&mut self) {
        let ticket = self.duty(|work| work == EffectKind::Launch).ticket;
        self.tell(Event::Launched { ticket });
    }

    fn probed(&mut self, probed: Probed) {
        let ticket = self.duty(|work| matches!(work, EffectKind::Probe | EffectKind::Ping)).ticket;
        self.tell(Event::Probed { ticket, probed });
    }

    fn looked(&mut self, evidence: Evidence) {
        let ticket = self.duty(|work| work == EffectKind::Look).ticket;
        self.tell(Event::Looked { ticket, evidence });
    }

    fn stopped(&mut self, outcome: StopOutcome) {
        let ticket = self.duty(|work| matches!(work, EffectKind::Stop { .. })).ticket;
        self.tell(Event::Stopped { ticket, outcome });
    }

    fn started(&mut self, execution: ExecutionId) {
        let ticket = self.duty(|work| work == EffectKind::Exec { execution }).ticket;
        self.tell(Event::ExecutionStarted { ticket, execution });
    }

    fn exited(&mut self, execution: ExecutionId, code: i32) {
        let ticket = self.duty(|work| work == EffectKind::Watch { execution }).ticket;
        self.tell(Event::ExecutionEnded { ticket, execution, outcome: Outcome::exited(code) });
    }
}

/// What users want of it.
impl Scene {
    fn execute(&mut self, id: ExecutionId, limits: ExecutionLimits) {
        self.ask(Request::Execute { id, kind: ExecutionKind::Run, limits, may_queue: true })
            .expect("there is room in the queue");
    }

    fn stop(&mut self) {
        self.ask(Request::Stop { cause: Cause::StoppedByUser, forced: false })
            .expect("a stop is legal in every state");
    }
}

fn one_at_a_time() -> Policy {
    Policy { side_by_side: 1, ..Policy::default() }
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

fn body(generation: u64, executions: Vec<(ExecutionId, Seen)>) -> BodySeen {
    BodySeen {
        generation: Generation(generation),
        whole: true,
        executions: executions
            .into_iter()
            .map(|(execution, seen)| ExecutionSeen { execution, seen })
            .collect(),
        last_busy_at: None,
    }
}

fn present(bodies: Vec<BodySeen>) -> Evidence {
    Evidence::Present(bodies)
}
