//! Deterministic simulator: the real engine, lifecycle and store under virtual time.
//!
//! One run has a few nodes on one store, a few users, a fake provider and injected faults. One seed decides all of it, so
//! the same seed gives the same history, and a failing seed can be replayed.
//!
//! ```text
//!   users ──requests──► node ──► gate ──► store (shared, in memory)
//!                        ▲         │
//!     faults ─crash,pause┘         └────► fake provider (failing, slow)
//!                                              │
//!   checker ◄── every commit, every instance ──┘
//! ```
//!
//! - [`run`] runs one seed and returns a [`Run`].
//! - `users` send requests; `faults` and `provider_faults` inject faults.
//! - `gate` lets a node crash or pause between any two of its steps.
//! - `checker` checks every commit and every physical instance from outside.

mod artifacts;
mod checker;
mod environment;
mod faults;
mod gate;
mod gated_store;
mod nodes;
mod provider_faults;
mod random;
mod users;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinfold_engine::{Clock, PoolPlan};
use pinfold_lifecycle::{AdmissionLimits, Cause, Guards, Lease, Limits, SandboxId, Shape};
use pinfold_provider::fake::FakeWorld;
use pinfold_store::{SandboxFilter, Seq, Store};
use pinfold_store_sqlite::InlineStore;

use crate::checker::Checker;
use crate::environment::{NodeRegistry, SimClock, SimIds};
use crate::faults::FaultInjector;
use crate::gated_store::DiskFaults;
use crate::nodes::{NodeSlot, Shared};
use crate::provider_faults::ProviderFaults;
use crate::random::Random;
use crate::users::{Acknowledged, User, short_times};

/// The result of one seed.
#[derive(Debug)]
pub struct Run {
    pub seed: u64,
    /// Hash of the whole history.
    pub hash: u64,
    pub commits: u64,
    pub violation: Option<String>,
    pub trace: Vec<String>,
}

/// How long everything may take to settle after the faults have ended, in virtual time.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1_800);
/// How long a deadline may be overdue while a node is able to act on it.
const STUCK_MS: u64 = 20_000;

/// Runs one seed to its end.
pub fn run(seed: u64, guards: Guards, traced: bool) -> anyhow::Result<Run> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(run_inside(seed, guards, traced))
}

async fn run_inside(seed: u64, guards: Guards, traced: bool) -> anyhow::Result<Run> {
    let random = Random::new(seed);
    let clock = Arc::new(SimClock::new());
    let world = Arc::new(FakeWorld::default());
    let checker = Arc::new(Checker::new(world.clone(), clock.clone(), traced));
    let store: Arc<dyn Store> = Arc::new(InlineStore::in_memory(u128::from(seed))?);
    let admission = AdmissionLimits { sandboxes: Some(random.between(2, 6)), ..AdmissionLimits::default() };
    let pool = choose_pool(&random, guards);
    let pool_life_ms = random.one_of(&[60_000, 120_000, 600_000]).unwrap_or(60_000);
    let shared = Arc::new(Shared {
        provider_faults: Arc::new(ProviderFaults::new(random.clone(), clock.clone())),
        treats_paused_as_dead: random.happens(300),
        ids: Arc::new(SimIds::default()),
        registry: Arc::new(NodeRegistry::default()),
        disk: Arc::new(DiskFaults::default()),
        random,
        clock,
        world,
        store,
        checker,
        guards,
        admission,
        pool: Mutex::new(pool),
        pool_life_ms,
    });
    let slots: Arc<Vec<NodeSlot>> =
        Arc::new((0..shared.random.between(1, 3)).map(|_| NodeSlot::new(shared.clone())).collect());
    run_scenario(&shared, &slots).await;
    let hash = hash_of_history(shared.store.as_ref()).await?;
    let checker = &shared.checker;
    Ok(Run {
        seed,
        hash,
        commits: checker.commits(),
        violation: checker.violation(),
        trace: checker.take_trace(),
    })
}

/// Half of the runs have a pool.
fn choose_pool(random: &Random, guards: Guards) -> Option<PoolPlan> {
    let limits = Limits { memory_mb: Some(10), ..Limits::default() };
    let plan = PoolPlan {
        shape: Shape { image: None, limits },
        policy: short_times(guards),
        size: random.between(1, 3),
    };
    random.happens(500).then_some(plan)
}

async fn run_scenario(shared: &Arc<Shared>, slots: &Arc<Vec<NodeSlot>>) {
    for slot in slots.iter() {
        slot.start().await;
    }
    let acknowledged = Arc::new(Acknowledged::default());
    let mischief = FaultInjector { shared: shared.clone(), slots: slots.clone() };
    let watch = tokio::spawn(watch_for_stuck(shared.clone(), slots.clone()));
    let mut crowd = tokio::task::JoinSet::new();
    for name in 0..shared.random.between(1, 4) {
        let user =
            User { shared: shared.clone(), slots: slots.clone(), acknowledged: acknowledged.clone(), name };
        crowd.spawn(user.live(shared.random.between(5, 30), 8_000));
    }
    mischief.inject(shared.random.below(40), 6_000).await;
    mischief.end_faults().await;
    crowd.join_all().await;
    disable_pool(shared, slots).await;
    stop_everything(shared, slots).await;
    watch.abort();
    check_final_state(shared, &acknowledged).await;
}

/// Restarts all nodes without a pool, so that no further instances are prepared.
async fn disable_pool(shared: &Arc<Shared>, slots: &Arc<Vec<NodeSlot>>) {
    if shared.pool().is_none() {
        return;
    }
    shared.disable_pool();
    for slot in slots.iter() {
        slot.shut_down().await;
        slot.start().await;
    }
}

/// Reports deadlines that a running node does not act on, and wrong totals.
async fn watch_for_stuck(shared: Arc<Shared>, slots: Arc<Vec<NodeSlot>>) {
    const EVERY_MS: u64 = 3_000;
    let mut monitored_since = shared.clock.now();
    let mut last = monitored_since;
    loop {
        tokio::time::sleep(Duration::from_millis(EVERY_MS)).await;
        let now = shared.clock.now();
        let jumped = now != last.after_ms(EVERY_MS);
        let up = slots.iter().filter_map(NodeSlot::running).any(|running| !running.gate.is_paused());
        let failing = shared.disk.faults_per_mille.load(Ordering::Relaxed) > 0;
        let full = shared.disk.full.load(Ordering::Relaxed);
        if jumped || !up || failing || full {
            monitored_since = now;
        }
        shared.checker.find_stuck(now, monitored_since, STUCK_MS);
        check_totals(&shared).await;
        last = now;
    }
}

/// Stops every sandbox, and waits until nothing is left.
async fn stop_everything(shared: &Arc<Shared>, slots: &Arc<Vec<NodeSlot>>) {
    let Some(running) = slots.iter().find_map(NodeSlot::running) else {
        return shared.checker.violate("no node is running after the faults have ended".into());
    };
    let began = tokio::time::Instant::now();
    while began.elapsed() < SETTLE_TIMEOUT && shared.checker.violation().is_none() {
        let unsettled = shared.checker.unsettled();
        let there = shared.world.instances(shared.clock.now());
        if unsettled.is_empty() && there.is_empty() {
            return;
        }
        for sandbox in unsettled {
            if matches!(sandbox.lease, Lease::Quarantined { .. }) {
                remove_quarantined(shared, sandbox.id);
            }
            // A stop that fails now is repeated in the next round.
            let _ = running.engine.stop(sandbox.id, Cause::StoppedByUser, Some(0), 0).await;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

/// Quarantined instances are only observed, so the simulated operator removes what could not be stopped.
fn remove_quarantined(shared: &Shared, sandbox: SandboxId) {
    let there = shared.world.instances(shared.clock.now());
    for physical in there.iter().filter(|physical| physical.instance.sandbox == sandbox) {
        shared.world.kill_instance(physical.instance, false);
    }
}

async fn check_final_state(shared: &Arc<Shared>, acknowledged: &Acknowledged) {
    let checker = &shared.checker;
    for sandbox in checker.unsettled() {
        checker.violate(format!("{} is left behind: {sandbox:?}", sandbox.id));
    }
    for physical in shared.world.instances(shared.clock.now()) {
        checker.violate(format!("an instance is left behind: {physical:?}"));
    }
    check_totals(shared).await;
    check_rows(shared).await;
    check_queue(shared).await;
    check_acknowledged(shared, acknowledged).await;
}

async fn check_totals(shared: &Arc<Shared>) {
    match shared.store.totals().await {
        Ok(totals) => shared.checker.check_totals(&totals),
        Err(error) => shared.checker.violate(format!("the totals cannot be read: {error}")),
    }
}

async fn check_rows(shared: &Arc<Shared>) {
    let checker = &shared.checker;
    match shared.store.list(SandboxFilter::Leased, None, 10).await {
        Ok(rows) if rows.is_empty() => {}
        other => checker.violate(format!("the store still lists leased sandboxes: {other:?}")),
    }
    match shared.store.next_deadline().await {
        Ok(None) => {}
        other => checker.violate(format!("a deadline is left: {other:?}")),
    }
}

/// Longer than any user waits in the queue.
const MAX_QUEUE_WAIT: Duration = Duration::from_secs(40);

/// No queue entry outlives its deadline.
async fn check_queue(shared: &Arc<Shared>) {
    tokio::time::sleep(MAX_QUEUE_WAIT).await;
    match shared.store.is_queue_empty().await {
        Ok(true) => {}
        other => shared.checker.violate(format!("the queue is not empty: {other:?}")),
    }
}

/// Everything that was acknowledged is stored, and has ended.
async fn check_acknowledged(shared: &Arc<Shared>, acknowledged: &Acknowledged) {
    let checker = &shared.checker;
    let (sandboxes, forgotten, executions) =
        acknowledged.with(|ids| (ids.sandboxes.clone(), ids.forgotten.clone(), ids.executions.clone()));
    for id in sandboxes {
        if !forgotten.contains(&id) && !matches!(shared.store.load(id).await, Ok(Some(_))) {
            checker.violate(format!("{id} was acknowledged and is lost"));
        }
    }
    for (sandbox, execution) in executions {
        if !checker.has_outcome(execution) {
            checker.violate(format!("{execution} was acknowledged and has no outcome"));
        }
        if !forgotten.contains(&sandbox) && !matches!(shared.store.execution(execution).await, Ok(Some(_))) {
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
