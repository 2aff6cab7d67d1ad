//! One run: a few nodes on one store, a crowd of users, and everything that can go wrong, under virtual time and
//! decided by one seed. The same seed gives the same history.

mod chance;
mod checker;
mod crowd;
mod gate;
mod gated_store;
mod mischief;
mod nodes;
mod seams;
mod weather;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinfold_engine::{Clock, PoolPlan};
use pinfold_lifecycle::{AdmissionLimits, Cause, Guards, Lease, Limits, SandboxId, Shape};
use pinfold_provider::fake::FakeWorld;
use pinfold_store::{Filter, InlineStore, Seq, Store};

use crate::chance::Chance;
use crate::checker::Checker;
use crate::crowd::{Promises, User, short_times};
use crate::gated_store::Disk;
use crate::mischief::Mischief;
use crate::nodes::{Common, Slot};
use crate::seams::{Roster, SimClock, SimIds};
use crate::weather::Storm;

/// What came of one seed.
#[derive(Debug)]
pub struct Run {
    pub seed: u64,
    /// Of the whole history.
    pub hash: u64,
    pub commits: u64,
    pub violation: Option<String>,
    pub trace: Vec<String>,
}

/// How long a run may go on after it calmed down until nothing is left, in virtual time.
const PATIENCE: Duration = Duration::from_secs(1_800);
/// How long a deadline may be overdue while somebody could see to it.
const STUCK_MS: u64 = 20_000;

/// Runs one seed to its end.
pub fn run(seed: u64, guards: Guards, traced: bool) -> anyhow::Result<Run> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(run_inside(seed, guards, traced))
}

async fn run_inside(seed: u64, guards: Guards, traced: bool) -> anyhow::Result<Run> {
    let chance = Chance::new(seed);
    let clock = Arc::new(SimClock::new());
    let world = Arc::new(FakeWorld::default());
    let checker = Arc::new(Checker::new(world.clone(), clock.clone(), traced));
    let store: Arc<dyn Store> = Arc::new(InlineStore::in_memory(u128::from(seed))?);
    let admission = AdmissionLimits { sandboxes: Some(chance.between(2, 6)), ..AdmissionLimits::default() };
    let pool = plan_a_pool(&chance, guards);
    let pool_life_ms = chance.one_of(&[60_000, 120_000, 600_000]).unwrap_or(60_000);
    let common = Arc::new(Common {
        storm: Arc::new(Storm::new(chance.clone(), clock.clone())),
        doubts_the_paused: chance.hits(300),
        ids: Arc::new(SimIds::default()),
        roster: Arc::new(Roster::default()),
        disk: Arc::new(Disk::default()),
        chance,
        clock,
        world,
        store,
        checker,
        guards,
        admission,
        pool: Mutex::new(pool),
        pool_life_ms,
    });
    let slots: Arc<Vec<Slot>> =
        Arc::new((0..common.chance.between(1, 3)).map(|_| Slot::new(common.clone())).collect());
    play(&common, &slots).await;
    let hash = hash_of_history(common.store.as_ref()).await?;
    let checker = &common.checker;
    Ok(Run {
        seed,
        hash,
        commits: checker.commits(),
        violation: checker.violation(),
        trace: checker.take_trace(),
    })
}

/// Half of the runs have a pool.
fn plan_a_pool(chance: &Chance, guards: Guards) -> Option<PoolPlan> {
    let limits = Limits { memory_mb: Some(10), ..Limits::default() };
    let plan = PoolPlan {
        shape: Shape { image: None, limits },
        policy: short_times(guards),
        size: chance.between(1, 3),
    };
    chance.hits(500).then_some(plan)
}

async fn play(common: &Arc<Common>, slots: &Arc<Vec<Slot>>) {
    for slot in slots.iter() {
        slot.start().await;
    }
    let promises = Arc::new(Promises::default());
    let mischief = Mischief { common: common.clone(), slots: slots.clone() };
    let watch = tokio::spawn(watch_for_stuck(common.clone(), slots.clone()));
    let mut crowd = tokio::task::JoinSet::new();
    for name in 0..common.chance.between(1, 4) {
        let user = User { common: common.clone(), slots: slots.clone(), promises: promises.clone(), name };
        crowd.spawn(user.live(common.chance.between(5, 30), 8_000));
    }
    mischief.rage(common.chance.below(40), 6_000).await;
    mischief.calm_down().await;
    crowd.join_all().await;
    do_without_a_pool(common, slots).await;
    end_everything(common, slots).await;
    watch.abort();
    check_the_end(common, &promises).await;
}

/// From now on nothing is made that nobody asked for.
async fn do_without_a_pool(common: &Arc<Common>, slots: &Arc<Vec<Slot>>) {
    if common.pool().is_none() {
        return;
    }
    common.end_the_pool();
    for slot in slots.iter() {
        slot.shut_down().await;
        slot.start().await;
    }
}

/// Notices what nobody sees to although somebody could, all the time since then, and sums that are wrong.
async fn watch_for_stuck(common: Arc<Common>, slots: Arc<Vec<Slot>>) {
    const EVERY_MS: u64 = 3_000;
    let mut able_since = common.clock.now();
    let mut last = able_since;
    loop {
        tokio::time::sleep(Duration::from_millis(EVERY_MS)).await;
        let now = common.clock.now();
        let jumped = now != last.after_ms(EVERY_MS);
        let up = slots.iter().filter_map(Slot::running).any(|running| !running.gate.is_paused());
        let failing = common.disk.faults_per_mille.load(Ordering::Relaxed) > 0;
        let full = common.disk.full.load(Ordering::Relaxed);
        if jumped || !up || failing || full {
            able_since = now;
        }
        common.checker.find_stuck(now, able_since, STUCK_MS);
        check_sums(&common).await;
        last = now;
    }
}

/// Every sandbox is stopped, and then everything must go.
async fn end_everything(common: &Arc<Common>, slots: &Arc<Vec<Slot>>) {
    let Some(running) = slots.iter().find_map(Slot::running) else {
        return common.checker.violate("no node is left, although it is calm".into());
    };
    let began = tokio::time::Instant::now();
    while began.elapsed() < PATIENCE && common.checker.violation().is_none() {
        let unsettled = common.checker.unsettled();
        let there = common.world.everything(common.clock.now());
        if unsettled.is_empty() && there.is_empty() {
            return;
        }
        for sandbox in unsettled {
            if matches!(sandbox.lease, Lease::Quarantined { .. }) {
                remove_by_hand(common, sandbox.id);
            }
            // What cannot be asked now is asked again.
            let _ = running.engine.stop(sandbox.id, Cause::StoppedByUser, true, 0).await;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

/// What is quarantined is only looked at; it is for an operator to end what could not be ended.
fn remove_by_hand(common: &Common, sandbox: SandboxId) {
    let there = common.world.everything(common.clock.now());
    for physical in there.iter().filter(|physical| physical.body.sandbox == sandbox) {
        common.world.kill_body(physical.body, false);
    }
}

async fn check_the_end(common: &Arc<Common>, promises: &Promises) {
    let checker = &common.checker;
    for sandbox in checker.unsettled() {
        checker.violate(format!("{} is left behind: {sandbox:?}", sandbox.id));
    }
    for physical in common.world.everything(common.clock.now()) {
        checker.violate(format!("something physical is left behind: {physical:?}"));
    }
    check_sums(common).await;
    check_rows(common).await;
    check_queue(common).await;
    check_promises(common, promises).await;
}

async fn check_sums(common: &Arc<Common>) {
    match common.store.totals().await {
        Ok(totals) => common.checker.check_totals(&totals),
        Err(error) => common.checker.violate(format!("the totals cannot be read: {error}")),
    }
}

async fn check_rows(common: &Arc<Common>) {
    let checker = &common.checker;
    match common.store.list(Filter::Leased, None, 10).await {
        Ok(rows) if rows.is_empty() => {}
        other => checker.violate(format!("the store says that something is present: {other:?}")),
    }
    match common.store.next_deadline().await {
        Ok(None) => {}
        other => checker.violate(format!("a deadline is left: {other:?}")),
    }
}

/// The longest that anybody wants to wait, and some.
const QUEUE_IS_OVER: Duration = Duration::from_secs(40);

/// No place outlives its deadline, whoever saw to it.
async fn check_queue(common: &Arc<Common>) {
    tokio::time::sleep(QUEUE_IS_OVER).await;
    match common.store.is_queue_empty().await {
        Ok(true) => {}
        other => common.checker.violate(format!("somebody is left in the queue: {other:?}")),
    }
}

/// What was acknowledged is there, and ended.
async fn check_promises(common: &Arc<Common>, promises: &Promises) {
    let checker = &common.checker;
    let (sandboxes, forgotten, executions) =
        promises.with(|made| (made.sandboxes.clone(), made.forgotten.clone(), made.executions.clone()));
    for id in sandboxes {
        if !forgotten.contains(&id) && !matches!(common.store.load(id).await, Ok(Some(_))) {
            checker.violate(format!("{id} was acknowledged and is lost"));
        }
    }
    for (sandbox, execution) in executions {
        if !checker.has_outcome(execution) {
            checker.violate(format!("{execution} was acknowledged and has no outcome"));
        }
        if !forgotten.contains(&sandbox) && !matches!(common.store.execution(execution).await, Ok(Some(_))) {
            checker.violate(format!("{execution} was acknowledged and is lost"));
        }
    }
}

async fn hash_of_history(store: &dyn Store) -> anyhow::Result<u64> {
    let mut hasher = DefaultHasher::new();
    let mut after = Seq::default();
    loop {
        let page = store.history(None, after, 1_000).await?;
        let Some(last) = page.last() else {
            return Ok(hasher.finish());
        };
        after = last.seq;
        for row in &page {
            (row.seq, row.sandbox, &row.record).hash(&mut hasher);
        }
    }
}
