//! What must hold at every instant of a run, checked from outside: by what was committed, what is physically
//! there, and what users were told. It shares no judgement with the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_engine::Clock;
use pinfold_lifecycle::{
    ExecutionId, Outcome, Policy, Probed, Sandbox, SandboxId, State, Timestamp, Totals, Transition,
    invariants, status,
};
use pinfold_provider::InstanceId;
use pinfold_provider::fake::FakeWorld;

use crate::seams::SimClock;

pub(crate) struct Checker {
    world: Arc<FakeWorld>,
    clock: Arc<SimClock>,
    traced: bool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    known: BTreeMap<SandboxId, (Sandbox, Arc<Policy>)>,
    probes: BTreeMap<InstanceId, Timestamp>,
    outcomes: BTreeMap<ExecutionId, Outcome>,
    given_out: BTreeSet<SandboxId>,
    set_back_ms: u64,
    created: u64,
    destroyed: u64,
    violation: Option<String>,
    trace: Vec<String>,
    steps: u64,
}

impl Checker {
    pub(crate) fn new(world: Arc<FakeWorld>, clock: Arc<SimClock>, traced: bool) -> Self {
        Self { world, clock, traced, seen: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn say(&self, line: impl FnOnce() -> String) {
        if self.traced {
            let line = format!("{:>10} {}", self.clock.now().0 % 1_000_000_000, line());
            self.lock().trace.push(line);
        }
    }

    /// Only the first violation counts: what comes after it may be its consequence.
    pub(crate) fn violate(&self, what: String) {
        self.say(|| format!("VIOLATION {what}"));
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

    /// A probe that was under way then is younger, by the clock that it was asked by, than by the one that saw it pass.
    pub(crate) fn clock_was_set_back(&self, ms: u64) {
        self.lock().set_back_ms += ms;
    }

    pub(crate) fn probed(&self, body: InstanceId, probed: &Probed) {
        if *probed == Probed::Passed {
            self.lock().probes.insert(body, self.clock.now());
        }
    }

    /// Something was committed, for the first time for its sandbox or not.
    pub(crate) fn committed(&self, transition: &Transition, policy: Option<Arc<Policy>>) {
        let id = transition.sandbox.id;
        for record in &transition.records {
            self.say(|| format!("{id} {:?} by {}", record.fact, record.by));
        }
        let broken = {
            let mut seen = self.lock();
            seen.steps += 1;
            seen.take(transition, policy)
        };
        if let Some(rule) = broken {
            self.violate(format!("{id}: {rule}\n  {:?}", transition.sandbox));
        }
        self.look();
    }

    /// Somebody is given a body from the pool: the first one, and it is proven.
    pub(crate) fn given_out(&self, transition: &Transition, policy: &Policy) {
        let sandbox = &transition.sandbox;
        // It was proven when that was decided: a node may fall asleep before it commits.
        let now = transition.records.last().map_or_else(|| self.clock.now(), |record| record.at);
        let (first, proven) = {
            let mut seen = self.lock();
            let body = InstanceId { sandbox: sandbox.id, generation: sandbox.generation() };
            (seen.given_out.insert(sandbox.id), seen.is_fresh(body, now, policy))
        };
        if !first {
            self.violate(format!("given out once: {} was given to a second user", sandbox.id));
        }
        if !proven {
            self.violate(format!("{} was given out without a fresh proof", sandbox.id));
        }
    }

    /// What is physically there against what is leased, and what is shown against what was probed.
    pub(crate) fn look(&self) {
        let now = self.clock.now();
        let alive: Vec<_> =
            self.world.everything(now).into_iter().filter(|physical| physical.alive).collect();
        let mut broken = Vec::new();
        {
            let seen = self.lock();
            for physical in &alive {
                let InstanceId { sandbox, generation } = physical.body;
                let leased = seen.known.get(&sandbox).is_some_and(|(known, _)| {
                    known.lease.may_have_a_body() && known.generation() == generation
                });
                let outlives = seen
                    .known
                    .get(&sandbox)
                    .is_some_and(|(known, _)| physical.running > 0 && physical.ends_at > known.expires_at);
                if outlives {
                    broken.push(format!("its end is kept: what runs in {sandbox} may outlive it"));
                }
                if !leased {
                    broken.push(format!("a body without a lease: {sandbox} generation {}", generation.0));
                }
                if alive.iter().filter(|other| other.body.sandbox == sandbox).count() > 1 {
                    broken.push(format!("one body: {sandbox} has two"));
                }
            }
            broken.extend(seen.unproven(now));
        }
        for what in broken {
            self.violate(what);
        }
    }

    /// A user was told that nothing is left.
    pub(crate) fn told_gone(&self, id: SandboxId) {
        let there = self.world.everything(self.clock.now());
        if there.iter().any(|physical| physical.body.sandbox == id && physical.alive) {
            self.violate(format!("a stop of {id} was acknowledged and its body lives"));
        }
    }

    /// Deadlines that are overdue although somebody could have seen to them all this time.
    pub(crate) fn find_stuck(&self, now: Timestamp, able_since: Timestamp, patience_ms: u64) {
        let stuck: Vec<_> = {
            let seen = self.lock();
            let open =
                seen.known.values().filter_map(|(sandbox, _)| Some((sandbox.id, sandbox.next_deadline()?)));
            open.filter(|(_, deadline)| now.ms_since((*deadline).max(able_since)) > patience_ms).collect()
        };
        for (id, deadline) in stuck {
            self.violate(format!("{id} is stuck: nobody saw to its deadline {}", deadline.0 % 1_000_000_000));
        }
    }

    pub(crate) fn check_totals(&self, totals: &Totals) {
        let seen = self.lock();
        let unsettled = seen.known.values().filter(|(sandbox, _)| !sandbox.is_settled());
        let (pooled, present): (Vec<_>, Vec<_>) =
            unsettled.partition(|(sandbox, _)| sandbox.pooled.is_some());
        let (pooled, present) = (pooled.len() as u64, present.len() as u64);
        let (created, destroyed) = (seen.created, seen.destroyed);
        drop(seen);
        let sums = (totals.created, totals.destroyed, totals.present(), totals.pooled);
        if sums != (created, destroyed, present, pooled) {
            self.violate(format!(
                "the sum is wrong: {totals:?}, but {created} created, {present} present and {pooled} pooled"
            ));
        }
    }

    /// Everything that is not settled, for the end of a run.
    pub(crate) fn unsettled(&self) -> Vec<Sandbox> {
        let seen = self.lock();
        seen.known
            .values()
            .filter(|(sandbox, _)| !sandbox.is_settled())
            .map(|(sandbox, _)| sandbox.clone())
            .collect()
    }

    pub(crate) fn has_outcome(&self, execution: ExecutionId) -> bool {
        self.lock().outcomes.contains_key(&execution)
    }
}

impl Seen {
    fn take(&mut self, transition: &Transition, policy: Option<Arc<Policy>>) -> Option<String> {
        let next = &transition.sandbox;
        let before = self.known.remove(&next.id);
        let policy = policy.or_else(|| before.as_ref().map(|(_, policy)| policy.clone())).unwrap_or_default();
        let (created, destroyed) = next.created_and_destroyed();
        let (had_created, had_destroyed) =
            before.as_ref().map_or((0, 0), |(old, _)| old.created_and_destroyed());
        self.created += created - had_created;
        self.destroyed = self.destroyed + destroyed - had_destroyed;
        let mut broken = invariants::broken(next, &policy).map(str::to_owned);
        if let Some((before, _)) = &before {
            broken = broken.or(invariants::broken_step(before, next).map(str::to_owned));
        }
        if let Some(again) = next.executions.iter().find(|e| self.outcomes.contains_key(&e.id)) {
            broken = broken.or(Some(format!("{} has its outcome and goes on", again.id)));
        }
        for execution in &transition.finished {
            let outcome = execution.outcome().cloned();
            match (self.outcomes.get(&execution.id), outcome) {
                (Some(first), Some(later)) if *first != later => {
                    broken = broken.or(Some(format!("{} ended twice: {first:?}, {later:?}", execution.id)));
                }
                (None, Some(first)) => {
                    self.outcomes.insert(execution.id, first);
                }
                (_, _) => {}
            }
        }
        if !next.is_to_be_forgotten() {
            self.known.insert(next.id, (next.clone(), policy));
        } else if !next.is_settled() {
            broken = broken.or(Some("a record was forgotten before its body was proven gone".to_owned()));
        }
        broken
    }

    fn is_fresh(&self, body: InstanceId, now: Timestamp, policy: &Policy) -> bool {
        let longest_ms = policy.evidence_ms + self.set_back_ms;
        self.probes.get(&body).is_some_and(|passed| now.ms_since(*passed) <= longest_ms)
    }

    /// Sandboxes that are shown as ready without a probe that is fresh enough.
    fn unproven(&self, now: Timestamp) -> Vec<String> {
        let shown_ready = self.known.values().filter(|(sandbox, policy)| {
            matches!(status(sandbox, now, policy).state, State::Ready | State::Running)
        });
        let unproven = shown_ready.filter(|(sandbox, policy)| {
            let body = InstanceId { sandbox: sandbox.id, generation: sandbox.generation() };
            !self.is_fresh(body, now, policy)
        });
        unproven.map(|(sandbox, _)| format!("{} is shown ready and was not probed", sandbox.id)).collect()
    }
}
