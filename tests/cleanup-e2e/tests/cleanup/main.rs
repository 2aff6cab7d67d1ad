//! One scheduled cleanup over real sandboxes that are older than any limit: it ends those that are stuck, in any
//! of four ways, and none that is working; alerts fire for what is wrong, and for nothing else.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod captured_log;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pinfold_cleanup_e2e::{AlertInterval, Counts, Fixture, ReportedAlerts, create_sandboxes};
use pinfold_lifecycle::{Cause, SandboxId};
use pinfold_linux::SpawnerProgram;

use captured_log::CapturedLog;

/// Fewer than in `cargo xtask bench cleanup`, which has 160 and 10.
const SIZE: Counts = Counts { working: 28, stuck_per_kind: 3 };

async fn run_cleanup_and_check(fixture: Arc<Fixture>, log: CapturedLog) {
    let sandboxes = create_sandboxes(&fixture, SIZE).await.unwrap();
    let server = sandboxes.age(&fixture).await.unwrap();
    let before = ReportedAlerts::read(&server).await.unwrap();
    assert_eq!(before, ReportedAlerts::expected_before_cleanup(&sandboxes), "before the cleanup");

    let run = fixture.wait_for_first_cleanup(&server).await.unwrap();
    server.wait_for_alert_evaluation(&fixture).await.unwrap();

    fixture.check_ended_exactly_the_stuck(&sandboxes, &run).await.unwrap();
    let after = ReportedAlerts::read(&server).await.unwrap();
    assert_eq!(after, ReportedAlerts::expected_after_cleanup(&sandboxes), "after the cleanup");

    let again = server.client.clean_up(false).await.unwrap();
    server.wait_for_alert_evaluation(&fixture).await.unwrap();

    assert_eq!((again.found, again.kept), (vec![], vec![]));
    let now = ReportedAlerts::read(&server).await.unwrap();
    assert_eq!(now.fired, after.fired, "after another one that had nothing to do");
    check_log(&log.lines(), &sandboxes.stuck);
    server.end().await.unwrap();
}

fn check_log(lines: &[String], stuck: &BTreeMap<SandboxId, Cause>) {
    let count = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
    assert_eq!((count("Sandbox cleanup started"), count("Cleanup completed")), (2, 2), "{lines:#?}");
    assert_eq!(count(&format!("Found {} sandboxes to cleanup", stuck.len())), 1, "{lines:#?}");
    assert_eq!(count("Found 0 sandboxes to cleanup"), 1, "{lines:#?}");
    assert_eq!(count(&format!("cleaned={} ", stuck.len())), 1, "{lines:#?}");
    for id in stuck.keys() {
        assert_eq!(count(&format!("Cleaned up {id}")), 1, "{id}: {lines:#?}");
    }
    assert_eq!((count("Failed to cleanup"), count("Cleanup job failed")), (0, 0), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_scheduled_cleanup_ends_exactly_what_is_stuck_and_alerts_for_exactly_that() {
    let log = CapturedLog::begin();
    let spawner = SpawnerProgram {
        program: env!("CARGO_BIN_EXE_pinfold-cleanup-e2e").into(),
        arguments: vec!["__spawner".into()],
    };
    let alert_interval = AlertInterval(Duration::from_millis(50));
    let fixture =
        Arc::new(Fixture::begin(tempfile::tempdir().unwrap(), spawner, alert_interval).await.unwrap());

    let tested = tokio::spawn(run_cleanup_and_check(fixture.clone(), log)).await;

    let ended = fixture.end().await;
    if let Err(failed) = tested {
        std::panic::resume_unwind(failed.into_panic());
    }
    ended.unwrap();
}
