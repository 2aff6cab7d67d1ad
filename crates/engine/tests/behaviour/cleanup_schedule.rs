//! Scheduled cleanup: each run happens once however many engines there are, missed runs are made up by one, and
//! a failed run does not prevent the next.

use pinfold_engine::{CleanupLayer, Config};
use pinfold_lifecycle::Timestamp;
use pinfold_provider::fake::{Call, Fault};
use pinfold_store::{JobRun, JobSchedule, RunOutcome};

use crate::fakes::fault;
use crate::fixture::{Fixture, MINUTE, SECOND};

const HOUR: u64 = 60 * MINUTE;

fn patient() -> Config {
    Config { poll_ms: 10 * SECOND, heartbeat_ms: 10 * SECOND, ..Config::default() }
}

/// The oldest first.
async fn runs(fixture: &Fixture, layer: CleanupLayer) -> Vec<JobRun> {
    let mut runs = fixture.store.runs(Some(layer.job_name()), 1_000).await.unwrap();
    runs.reverse();
    runs
}

fn is_on_the_minute(at: Timestamp, minutes: i64) -> bool {
    at.0 % (minutes * 60_000) == 0
}

#[tokio::test(start_paused = true)]
async fn two_engines_on_one_store_share_the_cleanup_runs() {
    let fixture = Fixture::new();
    let engines = [fixture.start_engine_with(patient()).await, fixture.start_engine_with(patient()).await];
    for engine in &engines {
        engine.start_cleanup(fixture.store.clone(), None);
    }

    fixture.pass_ms(HOUR + MINUTE).await;

    for (layer, minutes, times) in [
        (CleanupLayer::Scheduled, 5, 12),
        (CleanupLayer::ByAge, 15, 4),
        (CleanupLayer::Pressure, 1, 60),
        (CleanupLayer::Reconcile, 60, 1),
    ] {
        let runs = runs(&fixture, layer).await;
        let mut due: Vec<_> = runs.iter().map(|run| run.due_at.unwrap()).collect();
        assert!(due.iter().all(|at| is_on_the_minute(*at, minutes)), "{layer:?}: {due:?}");
        assert!((times..=times + 1).contains(&due.len()), "{layer:?}: {}", due.len());
        due.dedup();
        assert_eq!(due.len(), runs.len(), "{layer:?}: a run happened twice");
        for run in &runs {
            let late_ms = run.started_at.ms_since(run.due_at.unwrap());
            assert!(late_ms <= 2 * SECOND, "{layer:?} began {late_ms} ms late");
            assert!(matches!(run.ended.as_ref().unwrap().outcome, RunOutcome::Done(_)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn missed_cleanup_runs_are_made_up_by_one() {
    let fixture = Fixture::new();
    let first = fixture.start_engine_with(patient()).await;
    first.start_cleanup(fixture.store.clone(), None);
    fixture.pass_ms(MINUTE).await;
    let due = fixture.store.jobs().await.unwrap();
    fixture.crash(first);
    let before = runs(&fixture, CleanupLayer::Scheduled).await.len();
    fixture.pass_ms(HOUR).await;

    let second = fixture.start_engine_with(patient()).await;
    second.start_cleanup(fixture.store.clone(), None);
    fixture.pass_ms(MINUTE).await;

    let missed = due.iter().find(|job| job.name == CleanupLayer::Scheduled.job_name()).unwrap().due_at;
    let runs = runs(&fixture, CleanupLayer::Scheduled).await;
    assert!((before + 1..=before + 2).contains(&runs.len()), "{runs:?}");
    assert_eq!(runs[before].due_at, Some(missed));
    assert!(runs[before].started_at.ms_since(missed) >= 30 * MINUTE, "the delay is recorded");
}

#[tokio::test(start_paused = true)]
async fn a_failed_cleanup_run_does_not_prevent_the_next() {
    let fixture = Fixture::new();
    let engine = fixture.start_engine_with(patient()).await;
    let cleaner = engine.start_cleanup(fixture.store.clone(), None);
    fixture.faults.always(Call::Discover, fault(Fault::ObserveFails));
    fixture.pass_ms(HOUR + MINUTE).await;
    let (failed, schedule_problems) =
        (runs(&fixture, CleanupLayer::Reconcile).await, cleaner.schedule_problems().await.unwrap());
    fixture.faults.clear();
    fixture.pass_ms(HOUR).await;

    let all = runs(&fixture, CleanupLayer::Reconcile).await;
    let outcome = |run: &JobRun| run.ended.clone().unwrap().outcome;
    assert!(matches!(outcome(&failed[0]), RunOutcome::Failed { error, .. } if error.contains("observe")));
    assert!(
        matches!(&schedule_problems[..], [reported] if reported.starts_with("cleanup.reconcile failed: ")),
        "{schedule_problems:?}"
    );
    assert_eq!(cleaner.schedule_problems().await.unwrap(), [""; 0]);
    assert_eq!(all.len(), failed.len() + 1);
    assert!(matches!(outcome(&all[failed.len()]), RunOutcome::Done(_)));
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_dead_engine_is_taken_over() {
    let fixture = Fixture::new();
    let first = fixture.start_engine_with(patient()).await;
    first.start_cleanup(fixture.store.clone(), None);
    fixture.faults.always(Call::Discover, crate::fakes::hangs());
    while runs(&fixture, CleanupLayer::Reconcile).await.is_empty() {
        assert!(fixture.now() < 2 * HOUR, "no run was started");
        fixture.pass_ms(SECOND).await;
    }
    fixture.crash(first);
    fixture.faults.clear();

    let second = fixture.start_engine_with(patient()).await;
    second.start_cleanup(fixture.store.clone(), None);
    fixture.pass_ms(4 * MINUTE).await;

    let ends: Vec<_> = runs(&fixture, CleanupLayer::Reconcile)
        .await
        .iter()
        .map(|run| run.ended.clone().unwrap().outcome)
        .collect();
    assert!(matches!(&ends[..], [RunOutcome::Lost, RunOutcome::Done(_)]), "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unclaimed_due_run_is_reported_as_late() {
    let fixture = Fixture::new();
    let mut sleepy = patient();
    sleepy.cleanup.settle_ms = 10 * SECOND;
    let (engine, clock) = (fixture.start_engine_with(sleepy).await, fixture.clock.clone());
    let cleaner = engine.start_cleanup(fixture.store.clone(), None);
    fixture.pass_ms(SECOND).await;
    let in_time = cleaner.schedule_problems().await.unwrap();
    clock.pause();
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;

    let late = cleaner.schedule_problems().await.unwrap();

    assert_eq!(in_time, [""; 0]);
    assert!(late.iter().any(|reported| reported.starts_with("cleanup.scheduled is overdue by ")), "{late:?}");
    clock.go_on();
}
