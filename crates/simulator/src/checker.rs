//! Checks a run from outside, at every instant: committed rows, physical instances and acknowledgements to users. It
//! shares no decisions with the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_engine::Clock;
use pinfold_lifecycle::{
    Execution, ExecutionId, Outcome, Policy, ProbeResult, Sandbox, SandboxId, State, Timestamp, Totals,
    Transition, invariants, status,
};
use pinfold_provider::InstanceId;
use pinfold_provider::fake::FakeWorld;

use crate::environment::SimClock;

pub(crate) struct Checker {
    world: Arc<FakeWorld>,
    clock: Arc<SimClock>,
    traced: bool,
    state: Mutex<CheckerState>,
}

#[derive(Default)]
struct CheckerState {
    rows: BTreeMap<SandboxId, (Sandbox, Arc<Policy>)>,
    probes: BTreeMap<InstanceId, Timestamp>,
    outcomes: BTreeMap<ExecutionId, Outcome>,
    claimed: BTreeSet<SandboxId>,
    set_back_ms: u64,
    created: u64,
    destroyed: u64,
    violation: Option<String>,
    trace: Vec<String>,
    steps: u64,
}

impl Checker {
    pub(crate) fn new(world: Arc<FakeWorld>, clock: Arc<SimClock>, traced: bool) -> Self {
        Self { world, clock, traced, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, CheckerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn trace(&self, line: impl FnOnce() -> String) {
        if self.traced {
            let line = format!("{:>10} {}", self.clock.now().0 % 1_000_000_000, line());
            self.lock().trace.push(line);
        }
    }

    /// Records a violation. Only the first one counts, because later ones may be its consequences.
    pub(crate) fn violate(&self, what: String) {
        self.trace(|| format!("VIOLATION {what}"));
        self.lock().violation.get_or_insert(what);
    }

    pub(crate) fn violation(&self) -> Option<String> {
        self.lock().violation.clone()
    }

    pub(crate) fn take_trace(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().trace)
    }

    pub(crate) fn commits(&self) -> u64 {
        self.lock().steps
    }

    /// After this, a probe under way is younger by the clock that requested it than by the clock that saw it pass.
    pub(crate) fn clock_was_set_back(&self, ms: u64) {
        self.lock().set_back_ms += ms;
    }

    pub(crate) fn probed(&self, instance: InstanceId, probed: &ProbeResult) {
        if *probed == ProbeResult::Passed {
            self.lock().probes.insert(instance, self.clock.now());
        }
    }

    /// Checks a committed transition.
    pub(crate) fn committed(&self, transition: &Transition, policy: Option<Arc<Policy>>) {
        let id = transition.sandbox.id;
        for record in &transition.records {
            self.trace(|| format!("{id} {:?} by {}", record.fact, record.by));
        }
        let violated = {
            let mut state = self.lock();
            state.steps += 1;
            state.apply(transition, policy)
        };
        if let Some(rule) = violated {
            self.violate(format!("{id}: {rule}\n  {:?}", transition.sandbox));
        }
        self.check_instances();
    }

    /// A user claims a pooled instance: it must be the first claim, with a fresh probe.
    pub(crate) fn claimed(&self, transition: &Transition, policy: &Policy) {
        let sandbox = &transition.sandbox;
        // The probe must be fresh at the time of the decision, because a node may be paused before it commits.
        let now = transition.records.last().map_or_else(|| self.clock.now(), |record| record.at);
        let (first, proven) = {
            let mut state = self.lock();
            let instance = InstanceId { sandbox: sandbox.id, generation: sandbox.generation() };
            (state.claimed.insert(sandbox.id), state.is_fresh(instance, now, policy))
        };
        if !first {
            self.violate(format!("claimed once: {} was claimed by a second user", sandbox.id));
        }
        if !proven {
            self.violate(format!("{} was claimed without a fresh probe", sandbox.id));
        }
    }

    /// Compares physical instances with leases, and shown states with probes.
    pub(crate) fn check_instances(&self) {
        let now = self.clock.now();
        let alive: Vec<_> = self.world.instances(now).into_iter().filter(|physical| physical.alive).collect();
        let mut violated = Vec::new();
        {
            let state = self.lock();
            for physical in &alive {
                let InstanceId { sandbox, generation } = physical.instance;
                let leased = state.rows.get(&sandbox).is_some_and(|(rows, _)| {
                    rows.lease.may_have_instance() && rows.generation() == generation
                });
                let outlives = state
                    .rows
                    .get(&sandbox)
                    .is_some_and(|(rows, _)| physical.running > 0 && physical.ends_at > rows.expires_at);
                if outlives {
                    violated
                        .push(format!("no execution outlives the deadline: an execution in {sandbox} may"));
                }
                if !leased {
                    violated
                        .push(format!("an instance without a lease: {sandbox} generation {}", generation.0));
                }
                if alive.iter().filter(|other| other.instance.sandbox == sandbox).count() > 1 {
                    violated.push(format!("one instance: {sandbox} has two"));
                }
            }
            violated.extend(state.unproven(now));
        }
        for what in violated {
            self.violate(what);
        }
    }

    /// A stop was acknowledged: nothing may be left.
    pub(crate) fn stop_acknowledged(&self, id: SandboxId) {
        let there = self.world.instances(self.clock.now());
        if there.iter().any(|physical| physical.instance.sandbox == id && physical.alive) {
            self.violate(format!("a stop of {id} was acknowledged and its instance is alive"));
        }
    }

    /// Deadlines that are overdue although a node was able to act on them all this time.
    pub(crate) fn find_stuck(&self, now: Timestamp, monitored_since: Timestamp, patience_ms: u64) {
        let stuck: Vec<_> = {
            let state = self.lock();
            let open =
                state.rows.values().filter_map(|(sandbox, _)| Some((sandbox.id, sandbox.next_deadline()?)));
            open.filter(|(_, deadline)| now.ms_since((*deadline).max(monitored_since)) > patience_ms)
                .collect()
        };
        for (id, deadline) in stuck {
            self.violate(format!(
                "{id} is stuck: no node acted on its deadline {}",
                deadline.0 % 1_000_000_000
            ));
        }
    }

    pub(crate) fn check_totals(&self, totals: &Totals) {
        let state = self.lock();
        let unsettled = state.rows.values().filter(|(sandbox, _)| !sandbox.is_settled());
        let (pooled, present): (Vec<_>, Vec<_>) =
            unsettled.partition(|(sandbox, _)| sandbox.pooled.is_some());
        let (pooled, present) = (pooled.len() as u64, present.len() as u64);
        let (created, destroyed) = (state.created, state.destroyed);
        drop(state);
        let sums = (totals.created, totals.destroyed, totals.present(), totals.pooled);
        if sums != (created, destroyed, present, pooled) {
            self.violate(format!(
                "the totals are wrong: {totals:?}, but {created} created, {present} present and {pooled} pooled"
            ));
        }
    }

    /// Sandboxes that are not settled.
    pub(crate) fn unsettled(&self) -> Vec<Sandbox> {
        let state = self.lock();
        state
            .rows
            .values()
            .filter(|(sandbox, _)| !sandbox.is_settled())
            .map(|(sandbox, _)| sandbox.clone())
            .collect()
    }

    pub(crate) fn has_outcome(&self, execution: ExecutionId) -> bool {
        self.lock().outcomes.contains_key(&execution)
    }
}

impl CheckerState {
    fn apply(&mut self, transition: &Transition, policy: Option<Arc<Policy>>) -> Option<String> {
        let next = &transition.sandbox;
        let before = self.rows.remove(&next.id);
        let policy = policy.or_else(|| before.as_ref().map(|(_, policy)| policy.clone())).unwrap_or_default();
        let (created, destroyed) = next.created_and_destroyed();
        let (had_created, had_destroyed) =
            before.as_ref().map_or((0, 0), |(old, _)| old.created_and_destroyed());
        self.created += created - had_created;
        self.destroyed = self.destroyed + destroyed - had_destroyed;
        let mut violated = invariants::violated(next, &policy).map(str::to_owned);
        if let Some((before, _)) = &before {
            violated = violated.or(invariants::violated_between(before, next).map(str::to_owned));
        }
        if let Some(repeated) = next.executions.iter().find(|e| self.outcomes.contains_key(&e.id)) {
            violated = violated.or(Some(format!("{} has its outcome and continues", repeated.id)));
        }
        let decided = before.iter().flat_map(|(before, _)| &before.executions);
        let decided = decided.filter_map(|e| Some((e.id, e.decided_outcome()?)));
        for (id, decided) in decided {
            let ended = transition.finished.iter().find(|ended| ended.id == id).and_then(Execution::outcome);
            if ended.is_some_and(|ended| (ended.kind, ended.cause) != (decided.kind, decided.cause)) {
                violated = violated.or(Some(format!("{id} was to end with {decided:?}, and has {ended:?}")));
            }
        }
        for execution in &transition.finished {
            let outcome = execution.outcome().cloned();
            match (self.outcomes.get(&execution.id), outcome) {
                (Some(first), Some(later)) if *first != later => {
                    violated =
                        violated.or(Some(format!("{} ended twice: {first:?}, {later:?}", execution.id)));
                }
                (None, Some(first)) => {
                    self.outcomes.insert(execution.id, first);
                }
                (_, _) => {}
            }
        }
        if !next.is_to_be_forgotten() {
            self.rows.insert(next.id, (next.clone(), policy));
        } else if !next.is_settled() {
            violated = violated.or(Some("a row was deleted before its instance was proven gone".to_owned()));
        }
        violated
    }

    fn is_fresh(&self, instance: InstanceId, now: Timestamp, policy: &Policy) -> bool {
        let longest_ms = policy.evidence_ms + self.set_back_ms;
        self.probes.get(&instance).is_some_and(|passed| now.ms_since(*passed) <= longest_ms)
    }

    /// Sandboxes that are shown as ready without a fresh probe.
    fn unproven(&self, now: Timestamp) -> Vec<String> {
        let shown_ready = self.rows.values().filter(|(sandbox, policy)| {
            matches!(status(sandbox, now, policy).state, State::Ready | State::Running)
        });
        let unproven = shown_ready.filter(|(sandbox, policy)| {
            let instance = InstanceId { sandbox: sandbox.id, generation: sandbox.generation() };
            !self.is_fresh(instance, now, policy)
        });
        unproven
            .map(|(sandbox, _)| format!("{} is shown as ready without a fresh probe", sandbox.id))
            .collect()
    }
}
