//! The nodes of a run: start, crash and shutdown.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_engine::{Config, Engine, OnExit, Parts, PoolPlan};
use pinfold_lifecycle::{AdmissionLimits, Guards};
use pinfold_provider::fake::{FakeProvider, FakeWorld};
use pinfold_store::Store;

use crate::artifacts::SimArtifacts;
use crate::checker::Checker;
use crate::environment::{NodeRegistry, SimClock, SimIds, SimLiveness};
use crate::gate::Gate;
use crate::gated_store::{DiskFaults, GatedStore};
use crate::provider_faults::{GatedProvider, ProviderFaults};
use crate::random::Random;

/// What all nodes of a run share.
pub(crate) struct Shared {
    pub(crate) random: Random,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) ids: Arc<SimIds>,
    pub(crate) registry: Arc<NodeRegistry>,
    pub(crate) world: Arc<FakeWorld>,
    pub(crate) provider_faults: Arc<ProviderFaults>,
    pub(crate) disk: Arc<DiskFaults>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) checker: Arc<Checker>,
    pub(crate) guards: Guards,
    pub(crate) admission: AdmissionLimits,
    /// `None` in some runs, and at the end of all.
    pub(crate) pool: Mutex<Option<PoolPlan>>,
    pub(crate) pool_life_ms: u64,
    pub(crate) treats_paused_as_dead: bool,
}

impl Shared {
    pub(crate) fn pool(&self) -> Option<PoolPlan> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn disable_pool(&self) {
        *self.pool.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A slot in which one engine runs at a time.
pub(crate) struct NodeSlot {
    shared: Arc<Shared>,
    running: Mutex<Option<Running>>,
}

#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) engine: Arc<Engine>,
    pub(crate) gate: Arc<Gate>,
}

impl NodeSlot {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, running: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn running(&self) -> Option<Running> {
        self.lock().clone().filter(|running| !running.gate.has_crashed())
    }

    /// Starts an engine. It may crash or fail during its start.
    pub(crate) async fn start(&self) {
        let gate = Arc::new(Gate::default());
        let shared = &self.shared;
        let store = GatedStore {
            inner: shared.store.clone(),
            gate: gate.clone(),
            disk: shared.disk.clone(),
            random: shared.random.clone(),
            checker: shared.checker.clone(),
            guards: shared.guards,
        };
        let fake = FakeProvider::new(shared.world.clone(), shared.provider_faults.clone(), shared.guards);
        let provider = GatedProvider { fake, gate: gate.clone(), checker: shared.checker.clone() };
        let (registry, treats_paused_as_dead) = (shared.registry.clone(), shared.treats_paused_as_dead);
        let parts = Parts {
            store: Arc::new(store),
            provider: Arc::new(provider),
            artifacts: Arc::new(SimArtifacts {
                gate: gate.clone(),
                faults: shared.provider_faults.clone(),
                checker: shared.checker.clone(),
            }),
            clock: shared.clock.clone(),
            ids: shared.ids.clone(),
            liveness: Arc::new(SimLiveness { registry, gate: gate.clone(), treats_paused_as_dead }),
        };
        let config = Config {
            admission: shared.admission,
            poll_ms: 1_000,
            reconcile_every_ms: 30_000,
            launches: 2,
            stops: 2,
            instance_calls: 4,
            pool: shared.pool().into_iter().collect(),
            pool_life_ms: shared.pool_life_ms,
            pool_yield_ms: 3_000,
            ..Config::default()
        };
        if let Ok(engine) = Engine::start(parts, config).await {
            shared.checker.trace(|| format!("node {} starts", engine.node()));
            *self.lock() = Some(Running { engine: Arc::new(engine), gate });
        }
    }

    /// The process is gone at this instant.
    pub(crate) fn crash(&self) {
        if let Some(running) = self.lock().take() {
            self.shared.checker.trace(|| format!("node {} crashes", running.engine.node()));
            running.gate.crash();
            running.gate.resume();
        }
    }

    /// The process shuts down in order and hands over its sandboxes.
    pub(crate) async fn shut_down(&self) {
        let Some(running) = self.lock().take() else { return };
        self.shared.checker.trace(|| format!("node {} shuts down", running.engine.node()));
        if let Some(engine) = Arc::into_inner(running.engine) {
            // An incomplete shutdown is handled like a crash by the other nodes.
            let _ = engine.shutdown(OnExit::Keep, 0).await;
        }
        running.gate.crash();
    }
}
