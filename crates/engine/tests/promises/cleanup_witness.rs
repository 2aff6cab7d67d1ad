//! Whoever counts what cleanup does hears of all of it: runs that broke off, runs that were lost, and records that went
//! by themselves.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pinfold_engine::{Config, How, Layer, Witness};
use pinfold_lifecycle::{Guards, Policy, Timestamp};
use pinfold_provider::fake::{Call, FakeProvider, Forecast, Weather};
use pinfold_store::{CameTo, Chores, Store};

use crate::seams::{StageWeather, hangs};
use crate::stage::{MINUTE, SECOND, Stage};

const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

#[derive(Default)]
struct Notes {
    /// Each run, and whether it was done.
    runs: Mutex<Vec<(Layer, bool)>>,
    lost: Mutex<Vec<Layer>>,
    forgotten: AtomicU64,
}

impl Notes {
    fn runs_of(&self, layer: Layer) -> Vec<bool> {
        let runs = self.runs.lock().unwrap();
        runs.iter().filter(|(of, _)| *of == layer).map(|(_, done)| *done).collect()
    }
}

impl Witness for Notes {
    fn ran(&self, layer: Layer, _took_ms: u64, came_to: &CameTo) {
        self.runs.lock().unwrap().push((layer, matches!(came_to, CameTo::Done(_))));
    }

    fn lost(&self, layer: Layer) {
        self.lost.lock().unwrap().push(layer);
    }

    fn forgot(&self, records: u64) {
        self.forgotten.fetch_add(records, Ordering::Relaxed);
    }
}

/// Nobody but the layers of cleanup compares records with bodies.
fn patient() -> Config {
    Config {
        poll_ms: 10 * SECOND,
        heartbeat_ms: 10 * SECOND,
        reconcile_every_ms: 100 * DAY,
        ..Config::default()
    }
}

/// Calm, until whoever looks for bodies is struck in its tracks.
struct Lightning {
    calm: Arc<StageWeather>,
    strikes: AtomicBool,
}

impl Weather for Lightning {
    fn now(&self) -> Timestamp {
        self.calm.now()
    }

    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.calm.sleep_ms(ms)
    }

    fn forecast(&self, call: Call) -> Forecast {
        assert!(call != Call::Discover || !self.strikes.load(Ordering::Relaxed), "struck by lightning");
        self.calm.forecast(call)
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_breaks_off_is_told_as_failed() {
    let stage = Stage::new();
    let weather = Arc::new(Lightning { calm: stage.weather.clone(), strikes: AtomicBool::new(false) });
    let provider = FakeProvider::new(stage.world.clone(), weather.clone(), Guards::default());
    let engine = stage.begin_over(provider, patient()).await;
    let notes = Arc::new(Notes::default());
    engine.keep_clean(stage.store.clone(), Some(notes.clone()));
    stage.pass_ms(SECOND).await;

    weather.strikes.store(true, Ordering::Relaxed);
    stage.pass_ms(HOUR).await;
    weather.strikes.store(false, Ordering::Relaxed);
    stage.pass_ms(HOUR).await;

    assert_eq!(notes.runs_of(Layer::Reconcile), [false, true]);
    assert!(notes.runs_of(Layer::Pressure).iter().all(|done| *done));
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_engine_died_in_it_is_told_as_lost() {
    let stage = Stage::new();
    let first = stage.begin_with(patient()).await;
    first.keep_clean(stage.store.clone(), None);
    stage.pass_ms(SECOND).await;
    stage.weather.always(Call::Discover, hangs());
    while stage.store.runs(Some(Layer::Reconcile.chore()), 1).await.unwrap().is_empty() {
        assert!(stage.now() < 2 * HOUR, "no turn was taken");
        stage.pass_ms(SECOND).await;
    }
    stage.crash(first);
    stage.weather.clear_up();

    let second = stage.begin_with(patient()).await;
    let notes = Arc::new(Notes::default());
    second.keep_clean(stage.store.clone(), Some(notes.clone()));
    stage.pass_ms(4 * MINUTE).await;

    assert_eq!(*notes.lost.lock().unwrap(), [Layer::Reconcile]);
    assert_eq!(notes.runs_of(Layer::Reconcile), [true]);
}

#[tokio::test(start_paused = true)]
async fn every_record_that_goes_is_told_once_whatever_it_goes_by() {
    let stage = Stage::new();
    let mut config = Config { keep_records_ms: MINUTE, reconcile_every_ms: MINUTE, ..patient() };
    config.cleanup.settle_ms = 100 * DAY;
    let engine = stage.begin_with(config).await;
    let forgotten = async || {
        let id = stage.ready(&engine, Policy::default()).await;
        stage.stop(&engine, id).await;
        stage.pass_ms(2 * MINUTE).await;
        assert!(stage.store.load(id).await.unwrap().is_none());
    };

    forgotten().await;
    let notes = Arc::new(Notes::default());
    let cleaner = engine.keep_clean(stage.store.clone(), Some(notes.clone()));
    let before = notes.forgotten.load(Ordering::Relaxed);
    forgotten().await;
    let report = cleaner.clean_up(Layer::Scheduled, How::Act).await.unwrap();

    assert_eq!((before, report.pruned), (1, 0), "what went before there was a witness is told to it");
    assert_eq!(notes.forgotten.load(Ordering::Relaxed), 2);
}
