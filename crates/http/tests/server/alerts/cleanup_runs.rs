//! Alerts about cleanup, triggered by its job and run records in a real store.

use std::sync::Arc;

use pinfold_alerts::{Alert, Rule};
use pinfold_engine::{Config, Schedule};
use pinfold_lifecycle::{NodeId, SandboxId, Timestamp};
use pinfold_store::{ClaimRun, MINUTE_MS, RunOutcome, RunReport, UnscheduledRun, floor_to_step};
use serde_json::json;

use super::{ANY, above, fast_alerts, state_of, wait_for_state, with_alerts};
use crate::fixture::{Fixture, with_engine_config};

const NEVER: &str = "0 0 29 2 *";
/// A scheduled job of the test that no engine runs.
const TEST_JOB: &str = "dusting";

/// Runs a test on a server whose own cleanup is never due.
async fn with_cleanup_disabled<Fut>(let_fire: &[(Alert, Rule)], test: impl FnOnce(Arc<Fixture>) -> Fut)
where
    Fut: Future<Output = ()> + Send + 'static,
{
    let never = || Schedule::parse(NEVER).unwrap();
    let mut engine = Config::default();
    engine.cleanup.settle_ms = 0;
    engine.cleanup.scheduled = never();
    engine.cleanup.by_age = never();
    engine.cleanup.pressure = never();
    engine.cleanup.reconcile = never();
    with_engine_config(engine, with_alerts(fast_alerts(let_fire)), test).await;
}

async fn record_run(fixture: &Fixture, outcome: RunOutcome) {
    let (node, now) = (NodeId(1), fixture.now());
    let run = UnscheduledRun { job: TEST_JOB.into(), node, started_at: now, ended_at: now, outcome };
    fixture.store().add_run(run).await.unwrap();
}

/// Records a scheduled run that is due again at `next_due`.
async fn record_scheduled_run(fixture: &Fixture, next_due: Timestamp, outcome: RunOutcome) {
    let now = fixture.now();
    let request = ClaimRun { job: TEST_JOB.into(), node: NodeId(1), now, expires_at: now.after_ms(60_000) };
    let claim = fixture.store().claim_run(request).await.unwrap().unwrap();
    fixture.store().finish_run(&claim, now, next_due, outcome).await.unwrap();
}

fn done(found: &[SandboxId]) -> RunOutcome {
    RunOutcome::Done(RunReport { found_ids: found.to_vec(), ..RunReport::default() })
}

fn failed() -> RunOutcome {
    RunOutcome::Failed { error: "injected".into(), report: RunReport::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_cleanup_fires_and_repeated_failures_escalate() {
    let [one, row] = [Alert::CleanupFailed, Alert::CleanupFailing].map(|it| (it, it.definition().rule));

    with_cleanup_disabled(&[one, row], |fixture| async move {
        fixture.store().plan_job(TEST_JOB, NEVER, Timestamp(i64::MAX)).await.unwrap();
        record_run(&fixture, failed()).await;
        let first = wait_for_state(&fixture, Alert::CleanupFailed, "firing").await;
        record_run(&fixture, RunOutcome::Lost).await;
        let two = state_of(&fixture, Alert::CleanupFailing, 2.0).await;
        record_run(&fixture, failed()).await;
        let third = wait_for_state(&fixture, Alert::CleanupFailing, "firing").await;

        assert_eq!(
            (first["value"].as_f64(), two.as_str(), third["value"].as_f64()),
            (Some(1.0), "inactive", Some(3.0))
        );
        record_run(&fixture, done(&[])).await;
        for alert in [Alert::CleanupFailed, Alert::CleanupFailing] {
            wait_for_state(&fixture, alert, "resolved").await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cleanup_with_failed_stops_counts_as_failed() {
    let alert = Alert::CleanupFailed;

    with_cleanup_disabled(&[(alert, alert.definition().rule)], |fixture| async move {
        let due_at = fixture.now();
        fixture.store().plan_job(TEST_JOB, NEVER, due_at).await.unwrap();
        let in_part = RunReport { found: 3, ended: 1, failed: 2, ..RunReport::default() };
        record_scheduled_run(&fixture, due_at, RunOutcome::Done(in_part)).await;
        wait_for_state(&fixture, alert, "firing").await;
        let ill = fixture.get("/api/sandbox/health").await.json();
        record_scheduled_run(&fixture, Timestamp(i64::MAX), done(&[])).await;
        wait_for_state(&fixture, alert, "resolved").await;
        let well = fixture.get("/api/sandbox/health").await.json();

        assert_eq!(ill["cleanup"], json!({ "status": "failing", "message": "dusting could not end 2 of 3" }));
        assert_eq!(well["cleanup"]["status"], "ok", "{well}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recurring_cleanup_findings_fire_until_runs_are_clean() {
    let alert = Alert::CleanupFoundTwice;

    with_cleanup_disabled(&[(alert, ANY)], |fixture| async move {
        fixture.store().plan_job(TEST_JOB, NEVER, Timestamp(i64::MAX)).await.unwrap();
        let [first, second, third] = [1, 2, 3].map(SandboxId);
        record_run(&fixture, done(&[first, second])).await;
        let once = state_of(&fixture, alert, 0.0).await;
        record_run(&fixture, done(&[second, third])).await;

        let reported = wait_for_state(&fixture, alert, "firing").await;

        assert_eq!((once.as_str(), reported["value"].as_f64()), ("inactive", Some(1.0)));
        for _ in 0..20 {
            record_run(&fixture, done(&[])).await;
        }
        wait_for_state(&fixture, alert, "resolved").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overdue_cleanup_fires_until_it_runs() {
    let alert = Alert::CleanupLate;
    // In periods of the schedule, here one minute each. The built-in rule fires after two.
    let rule = above(0.02);

    with_cleanup_disabled(&[(alert, rule)], |fixture| async move {
        wait_for_state(&fixture, alert, "inactive").await;
        let due_at = floor_to_step(fixture.now(), MINUTE_MS);
        fixture.store().plan_job(TEST_JOB, "* * * * *", due_at).await.unwrap();
        let reported = wait_for_state(&fixture, alert, "firing").await;

        record_scheduled_run(&fixture, fixture.now().after_ms(3_600_000), done(&[])).await;

        assert!(reported["value"].as_f64() > Some(0.02), "{reported}");
        wait_for_state(&fixture, alert, "resolved").await;
    })
    .await;
}
