//! The nodes of a run: how one is started, lost and replaced.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_engine::{Config, Engine, OnExit, Parts, PoolPlan};
use pinfold_lifecycle::{AdmissionLimits, Guards};
use pinfold_provider::fake::{FakeProvider, FakeWorld};
use pinfold_store::Store;

use crate::chance::Chance;
use crate::checker::Checker;
use crate::gate::Gate;
use crate::gated_store::{Disk, GatedStore};
use crate::seams::{Roster, SimCensus, SimClock, SimIds};
use crate::weather::{GatedProvider, Storm};

/// What all nodes of a run share.
pub(crate) struct Common {
    pub(crate) chance: Chance,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) ids: Arc<SimIds>,
    pub(crate) roster: Arc<Roster>,
    pub(crate) world: Arc<FakeWorld>,
    pub(crate) storm: Arc<Storm>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) checker: Arc<Checker>,
    pub(crate) guards: Guards,
    pub(crate) admission: AdmissionLimits,
    /// Off in some runs, and at the end of all.
    pub(crate) pool: Mutex<Option<PoolPlan>>,
    pub(crate) pool_life_ms: u64,
    pub(crate) doubts_the_paused: bool,
}

impl Common {
    pub(crate) fn pool(&self) -> Option<PoolPlan> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn end_the_pool(&self) {
        *self.pool.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A place where one engine runs at a time.
pub(crate) struct Slot {
    common: Arc<Common>,
    running: Mutex<Option<Running>>,
}

#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) engine: Arc<Engine>,
    pub(crate) gate: Arc<Gate>,
}

impl Slot {
    pub(crate) fn new(common: Arc<Common>) -> Self {
        Self { common, running: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn running(&self) -> Option<Running> {
        self.lock().clone().filter(|running| !running.gate.has_crashed())
    }

    /// Starts an engine here. It may crash or fail before it has begun.
    pub(crate) async fn start(&self) {
        let gate = Arc::new(Gate::default());
        let common = &self.common;
        let store = GatedStore {
            inner: common.store.clone(),
            gate: gate.clone(),
            disk: common.disk.clone(),
            chance: common.chance.clone(),
            checker: common.checker.clone(),
            guards: common.guards,
        };
        let fake = FakeProvider::new(common.world.clone(), common.storm.clone(), common.guards);
        let provider = GatedProvider { fake, gate: gate.clone(), checker: common.checker.clone() };
        let (roster, doubts_the_paused) = (common.roster.clone(), common.doubts_the_paused);
        let parts = Parts {
            store: Arc::new(store),
            provider: Arc::new(provider),
            clock: common.clock.clone(),
            ids: common.ids.clone(),
            census: Arc::new(SimCensus { roster, gate: gate.clone(), doubts_the_paused }),
        };
        let config = Config {
            admission: common.admission,
            poll_ms: 1_000,
            reconcile_every_ms: 30_000,
            launches: 2,
            stops: 2,
            questions: 4,
            pool: common.pool().into_iter().collect(),
            pool_life_ms: common.pool_life_ms,
            pool_yield_ms: 3_000,
            ..Config::default()
        };
        if let Ok(engine) = Engine::begin(parts, config).await {
            common.checker.say(|| format!("node {} begins", engine.node()));
            *self.lock() = Some(Running { engine: Arc::new(engine), gate });
        }
    }

    /// The process is gone at this instant.
    pub(crate) fn crash(&self) {
        if let Some(running) = self.lock().take() {
            self.common.checker.say(|| format!("node {} crashes", running.engine.node()));
            running.gate.crash();
            running.gate.resume();
        }
    }

    /// The process ends in order and its sandboxes are handed over.
    pub(crate) async fn shut_down(&self) {
        let Some(running) = self.lock().take() else { return };
        self.common.checker.say(|| format!("node {} shuts down", running.engine.node()));
        if let Some(engine) = Arc::into_inner(running.engine) {
            // What it could not say in time, its absence says.
            let _ = engine.shutdown(OnExit::Keep, 0).await;
        }
        running.gate.crash();
    }
}
