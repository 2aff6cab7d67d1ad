//! Each layer of cleanup has its turns: once however many engines there are, once however many were missed, and the
//! next one comes whatever became of the last.

use pinfold_engine::{Config, Layer};
use pinfold_lifecycle::Timestamp;
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{CameTo, Chores, Run};

use crate::seams::fault;
use crate::stage::{MINUTE, SECOND, Stage};

const HOUR: u64 = 60 * MINUTE;

fn patient() -> Config {
    Config { poll_ms: 10 * SECOND, heartbeat_ms: 10 * SECOND, ..Config::default() }
}

/// The oldest first.
async fn runs(stage: &Stage, layer: Layer) -> Vec<Run> {
    let mut runs = stage.store.runs(Some(layer.chore()), 1_000).await.unwrap();
    runs.reverse();
    runs
}

fn is_on_the_minute(at: Timestamp, minutes: i64) -> bool {
    at.0 % (minutes * 60_000) == 0
}

#[tokio::test(start_paused = true)]
async fn two_engines_on_one_store_share_the_turns() {
    let stage = Stage::new();
    let engines = [stage.begin_with(patient()).await, stage.begin_with(patient()).await];
    for engine in &engines {
        engine.keep_clean(stage.store.clone(), None);
    }

    stage.pass_ms(HOUR + MINUTE).await;

    for (layer, minutes, times) in [
        (Layer::Scheduled, 5, 12),
        (Layer::ByAge, 15, 4),
        (Layer::Pressure, 1, 60),
        (Layer::Reconcile, 60, 1),
    ] {
        let runs = runs(&stage, layer).await;
        let mut due: Vec<_> = runs.iter().map(|run| run.due_at.unwrap()).collect();
        assert!(due.iter().all(|at| is_on_the_minute(*at, minutes)), "{layer:?}: {due:?}");
        assert!((times..=times + 1).contains(&due.len()), "{layer:?}: {}", due.len());
        due.dedup();
        assert_eq!(due.len(), runs.len(), "{layer:?}: a turn was taken twice");
        for run in &runs {
            let late_ms = run.began_at.ms_since(run.due_at.unwrap());
            assert!(late_ms <= 2 * SECOND, "{layer:?} began {late_ms} ms late");
            assert!(matches!(run.ended.as_ref().unwrap().came_to, CameTo::Done(_)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn turns_that_were_missed_are_made_up_for_once() {
    let stage = Stage::new();
    let first = stage.begin_with(patient()).await;
    first.keep_clean(stage.store.clone(), None);
    stage.pass_ms(MINUTE).await;
    let due = stage.store.chores().await.unwrap();
    stage.crash(first);
    let before = runs(&stage, Layer::Scheduled).await.len();
    stage.pass_ms(HOUR).await;

    let second = stage.begin_with(patient()).await;
    second.keep_clean(stage.store.clone(), None);
    stage.pass_ms(MINUTE).await;

    let missed = due.iter().find(|chore| chore.name == Layer::Scheduled.chore()).unwrap().due_at;
    let runs = runs(&stage, Layer::Scheduled).await;
    assert!((before + 1..=before + 2).contains(&runs.len()), "{runs:?}");
    assert_eq!(runs[before].due_at, Some(missed));
    assert!(runs[before].began_at.ms_since(missed) >= 30 * MINUTE, "how late it was can be seen");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_leaves_the_next_one_to_happen() {
    let stage = Stage::new();
    let engine = stage.begin_with(patient()).await;
    let cleaner = engine.keep_clean(stage.store.clone(), None);
    stage.weather.always(Call::Discover, fault(Fault::LookFails));
    stage.pass_ms(HOUR + MINUTE).await;
    let (failed, troubles) = (runs(&stage, Layer::Reconcile).await, cleaner.troubles().await.unwrap());
    stage.weather.clear_up();
    stage.pass_ms(HOUR).await;

    let all = runs(&stage, Layer::Reconcile).await;
    let outcome = |run: &Run| run.ended.clone().unwrap().came_to;
    assert!(matches!(outcome(&failed[0]), CameTo::Failed { error, .. } if error.contains("look at")));
    assert!(
        matches!(&troubles[..], [told] if told.starts_with("cleanup.reconcile failed: ")),
        "{troubles:?}"
    );
    assert_eq!(cleaner.troubles().await.unwrap(), [""; 0]);
    assert_eq!(all.len(), failed.len() + 1);
    assert!(matches!(outcome(&all[failed.len()]), CameTo::Done(_)));
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_engine_died_in_it_is_taken_over() {
    let stage = Stage::new();
    let first = stage.begin_with(patient()).await;
    first.keep_clean(stage.store.clone(), None);
    stage.weather.always(Call::Discover, crate::seams::hangs());
    while runs(&stage, Layer::Reconcile).await.is_empty() {
        assert!(stage.now() < 2 * HOUR, "no turn was taken");
        stage.pass_ms(SECOND).await;
    }
    stage.crash(first);
    stage.weather.clear_up();

    let second = stage.begin_with(patient()).await;
    second.keep_clean(stage.store.clone(), None);
    stage.pass_ms(4 * MINUTE).await;

    let ends: Vec<_> =
        runs(&stage, Layer::Reconcile).await.iter().map(|run| run.ended.clone().unwrap().came_to).collect();
    assert!(matches!(&ends[..], [CameTo::Lost, CameTo::Done(_)]), "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_nobody_takes_is_told_as_late() {
    let stage = Stage::new();
    let mut sleepy = patient();
    sleepy.cleanup.settle_ms = 10 * SECOND;
    let (engine, clock) = (stage.begin_with(sleepy).await, stage.clock.clone());
    let cleaner = engine.keep_clean(stage.store.clone(), None);
    stage.pass_ms(SECOND).await;
    let in_time = cleaner.troubles().await.unwrap();
    clock.pause();
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;

    let late = cleaner.troubles().await.unwrap();

    assert_eq!(in_time, [""; 0]);
    assert!(late.iter().any(|told| told.starts_with("cleanup.scheduled should have begun ")), "{late:?}");
    clock.go_on();
}
