//! Alerts about cleanup, set off by what its chores and runs say in a real store.

use std::sync::Arc;

use pinfold_alerts::{Alert, Rule};
use pinfold_engine::{Config, Schedule};
use pinfold_lifecycle::{NodeId, SandboxId, Timestamp};
use pinfold_store::{CameTo, Chores, Figures, MINUTE_MS, NewRun, TakeTurn, step_of};
use serde_json::json;

use super::{ANY, above, hasty, state_of, under, until_it_is};
use crate::ground::{Ground, on_server_of};

const NEVER: &str = "0 0 29 2 *";
/// A chore of the test's own, which no engine knows how to do.
const CHORE: &str = "dusting";

/// A server whose own cleanup has no turn while the test lasts.
async fn on_server_without_turns<Fut>(let_fire: &[(Alert, Rule)], test: impl FnOnce(Arc<Ground>) -> Fut)
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
    on_server_of(engine, under(hasty(let_fire)), test).await;
}

async fn ran(ground: &Ground, came_to: CameTo) {
    let (node, now) = (NodeId(1), ground.now());
    let run = NewRun { chore: CHORE.into(), node, began_at: now, ended_at: now, came_to };
    ground.store().add_run(run).await.unwrap();
}

/// Is due again when that is said.
async fn had_its_turn(ground: &Ground, next_due: Timestamp, came_to: CameTo) {
    let now = ground.now();
    let ask = TakeTurn { chore: CHORE.into(), node: NodeId(1), now, hold_until: now.after_ms(60_000) };
    let turn = ground.store().take(ask).await.unwrap().unwrap();
    ground.store().finish(&turn, now, next_due, came_to).await.unwrap();
}

fn done(found: &[SandboxId]) -> CameTo {
    CameTo::Done(Figures { found_ids: found.to_vec(), ..Figures::default() })
}

fn failed() -> CameTo {
    CameTo::Failed { error: "no broom".into(), figures: Figures::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cleanup_that_fails_is_told_of_and_again_when_it_keeps_failing() {
    let [one, row] = [Alert::CleanupFailed, Alert::CleanupFailing].map(|it| (it, it.definition().rule));

    on_server_without_turns(&[one, row], |ground| async move {
        ground.store().plan(CHORE, NEVER, Timestamp(i64::MAX)).await.unwrap();
        ran(&ground, failed()).await;
        let first = until_it_is(&ground, Alert::CleanupFailed, "firing").await;
        ran(&ground, CameTo::Lost).await;
        let two = state_of(&ground, Alert::CleanupFailing, 2.0).await;
        ran(&ground, failed()).await;
        let third = until_it_is(&ground, Alert::CleanupFailing, "firing").await;

        assert_eq!(
            (first["value"].as_f64(), two.as_str(), third["value"].as_f64()),
            (Some(1.0), "inactive", Some(3.0))
        );
        ran(&ground, done(&[])).await;
        for alert in [Alert::CleanupFailed, Alert::CleanupFailing] {
            until_it_is(&ground, alert, "resolved").await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cleanup_that_could_not_end_all_that_it_found_has_failed_for_alerts_and_for_health() {
    let alert = Alert::CleanupFailed;

    on_server_without_turns(&[(alert, alert.definition().rule)], |ground| async move {
        let due_at = ground.now();
        ground.store().plan(CHORE, NEVER, due_at).await.unwrap();
        let in_part = Figures { found: 3, ended: 1, failed: 2, ..Figures::default() };
        had_its_turn(&ground, due_at, CameTo::Done(in_part)).await;
        until_it_is(&ground, alert, "firing").await;
        let ill = ground.get("/api/sandbox/health").await.json();
        had_its_turn(&ground, Timestamp(i64::MAX), done(&[])).await;
        until_it_is(&ground, alert, "resolved").await;
        let well = ground.get("/api/sandbox/health").await.json();

        assert_eq!(ill["cleanup"], json!({ "status": "failing", "message": "dusting could not end 2 of 3" }));
        assert_eq!(well["cleanup"]["status"], "ok", "{well}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cleanup_has_to_find_again_is_told_of_until_later_runs_find_nothing() {
    let alert = Alert::CleanupFoundTwice;

    on_server_without_turns(&[(alert, ANY)], |ground| async move {
        ground.store().plan(CHORE, NEVER, Timestamp(i64::MAX)).await.unwrap();
        let [first, second, third] = [1, 2, 3].map(SandboxId);
        ran(&ground, done(&[first, second])).await;
        let once = state_of(&ground, alert, 0.0).await;
        ran(&ground, done(&[second, third])).await;

        let told = until_it_is(&ground, alert, "firing").await;

        assert_eq!((once.as_str(), told["value"].as_f64()), ("inactive", Some(1.0)));
        for _ in 0..20 {
            ran(&ground, done(&[])).await;
        }
        until_it_is(&ground, alert, "resolved").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cleanup_that_nobody_begins_is_told_of_until_somebody_has_done_it() {
    let alert = Alert::CleanupLate;
    // Of a minute: two periods would be two of them.
    let rule = above(0.02);

    on_server_without_turns(&[(alert, rule)], |ground| async move {
        until_it_is(&ground, alert, "inactive").await;
        let due_at = step_of(ground.now(), MINUTE_MS);
        ground.store().plan(CHORE, "* * * * *", due_at).await.unwrap();
        let told = until_it_is(&ground, alert, "firing").await;

        had_its_turn(&ground, ground.now().after_ms(3_600_000), done(&[])).await;

        assert!(told["value"].as_f64() > Some(0.02), "{told}");
        until_it_is(&ground, alert, "resolved").await;
    })
    .await;
}
