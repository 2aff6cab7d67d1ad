//! The cleanup observer hears of every run, also of panicked and lost ones, and of every deleted record.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pinfold_engine::{CleanupLayer, CleanupMode, CleanupObserver, Config};
use pinfold_lifecycle::{Guards, Policy, Timestamp};
use pinfold_provider::fake::{Call, CallPlan, FakeProvider, FaultPlan};
use pinfold_store::{JobSchedule, RunOutcome, Store};

use crate::fakes::{TestFaults, hangs};
use crate::fixture::{Fixture, MINUTE, SECOND};

const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

#[derive(Default)]
struct RecordedCalls {
    /// Each run, and whether it succeeded.
    runs: Mutex<Vec<(CleanupLayer, bool)>>,
    lost: Mutex<Vec<CleanupLayer>>,
    forgotten: AtomicU64,
}

impl RecordedCalls {
    fn runs_of(&self, layer: CleanupLayer) -> Vec<bool> {
        let runs = self.runs.lock().unwrap();
        runs.iter().filter(|(of, _)| *of == layer).map(|(_, done)| *done).collect()
    }
}

impl CleanupObserver for RecordedCalls {
    fn ran(&self, layer: CleanupLayer, _took_ms: u64, outcome: &RunOutcome) {
        self.runs.lock().unwrap().push((layer, matches!(outcome, RunOutcome::Done(_))));
    }

    fn lost(&self, layer: CleanupLayer) {
        self.lost.lock().unwrap().push(layer);
    }

    fn pruned_records(&self, records: u64) {
        self.forgotten.fetch_add(records, Ordering::Relaxed);
    }
}

/// A configuration in which only cleanup reconciles.
fn patient() -> Config {
    Config {
        poll_ms: 10 * SECOND,
        heartbeat_ms: 10 * SECOND,
        reconcile_every_ms: 100 * DAY,
        ..Config::default()
    }
}

/// No faults, until `discover` is made to panic.
struct PanicInDiscover {
    no_faults: Arc<TestFaults>,
    panics: AtomicBool,
}

impl FaultPlan for PanicInDiscover {
    fn now(&self) -> Timestamp {
        self.no_faults.now()
    }

    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.no_faults.sleep_ms(ms)
    }

    fn plan_call(&self, call: Call) -> CallPlan {
        assert!(call != Call::Discover || !self.panics.load(Ordering::Relaxed), "injected panic");
        self.no_faults.plan_call(call)
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicked_cleanup_run_is_reported_as_failed() {
    let fixture = Fixture::new();
    let faults =
        Arc::new(PanicInDiscover { no_faults: fixture.faults.clone(), panics: AtomicBool::new(false) });
    let provider = FakeProvider::new(fixture.world.clone(), faults.clone(), Guards::default());
    let engine = fixture.start_engine_over(provider, patient()).await;
    let recorded = Arc::new(RecordedCalls::default());
    engine.start_cleanup(fixture.store.clone(), Some(recorded.clone()));
    fixture.pass_ms(SECOND).await;

    faults.panics.store(true, Ordering::Relaxed);
    fixture.pass_ms(HOUR).await;
    faults.panics.store(false, Ordering::Relaxed);
    fixture.pass_ms(HOUR).await;

    assert_eq!(recorded.runs_of(CleanupLayer::Reconcile), [false, true]);
    assert!(recorded.runs_of(CleanupLayer::Pressure).iter().all(|done| *done));
}

#[tokio::test(start_paused = true)]
async fn a_cleanup_run_of_a_dead_engine_is_reported_as_lost() {
    let fixture = Fixture::new();
    let first = fixture.start_engine_with(patient()).await;
    first.start_cleanup(fixture.store.clone(), None);
    fixture.pass_ms(SECOND).await;
    fixture.faults.always(Call::Discover, hangs());
    while fixture.store.runs(Some(CleanupLayer::Reconcile.job_name()), 1).await.unwrap().is_empty() {
        assert!(fixture.now() < 2 * HOUR, "no run was started");
        fixture.pass_ms(SECOND).await;
    }
    fixture.crash(first);
    fixture.faults.clear();

    let second = fixture.start_engine_with(patient()).await;
    let recorded = Arc::new(RecordedCalls::default());
    second.start_cleanup(fixture.store.clone(), Some(recorded.clone()));
    fixture.pass_ms(4 * MINUTE).await;

    assert_eq!(*recorded.lost.lock().unwrap(), [CleanupLayer::Reconcile]);
    assert_eq!(recorded.runs_of(CleanupLayer::Reconcile), [true]);
}

#[tokio::test(start_paused = true)]
async fn every_deleted_record_is_reported_once() {
    let fixture = Fixture::new();
    let mut config = Config { keep_records_ms: MINUTE, reconcile_every_ms: MINUTE, ..patient() };
    config.cleanup.settle_ms = 100 * DAY;
    let engine = fixture.start_engine_with(config).await;
    let forgotten = async || {
        let id = fixture.ready(&engine, Policy::default()).await;
        fixture.stop(&engine, id).await;
        fixture.pass_ms(2 * MINUTE).await;
        assert!(fixture.store.load(id).await.unwrap().is_none());
    };

    forgotten().await;
    let recorded = Arc::new(RecordedCalls::default());
    let cleaner = engine.start_cleanup(fixture.store.clone(), Some(recorded.clone()));
    let before = recorded.forgotten.load(Ordering::Relaxed);
    forgotten().await;
    let report = cleaner.clean_up(CleanupLayer::Scheduled, CleanupMode::Act).await.unwrap();

    assert_eq!((before, report.pruned), (1, 0), "deletions before the observer was set are reported to it");
    assert_eq!(recorded.forgotten.load(Ordering::Relaxed), 2);
}
