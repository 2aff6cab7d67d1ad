//! Removal of stale logs under disk pressure: only old logs of sandboxes that are proven gone, and none if the sandboxes
//! cannot be listed.

use std::fs;

use pinfold_lifecycle::{StaleDataCleanup, Timestamp};
use pinfold_logs::RemovalMode;

use crate::fixture::{Fixture, ID, written};

const HOUR_MS: u64 = 3_600_000;

#[expect(clippy::disallowed_methods, reason = "files are dated by the real clock")]
fn hours_from_now(hours: u64) -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_millis()).unwrap()).after_ms(hours * HOUR_MS)
}

/// Numbers of removed and of skipped logs.
async fn remove_stale(fixture: &Fixture, age_ms: u64, now: Timestamp) -> (u64, u64) {
    let StaleDataCleanup { cleaned, skipped, .. } =
        fixture.logs.clear_stale(age_ms, now, RemovalMode::Remove).await;
    (cleaned, skipped)
}

async fn written_to() -> Fixture {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    fixture.write(7, "text");
    fixture.finish(7).await;
    fixture
}

#[tokio::test]
async fn an_old_log_is_removed_from_the_host_and_from_the_archive() {
    for is_moved in [true, false] {
        let fixture = written_to().await;
        fixture.end().await;
        if is_moved {
            fixture.logs.move_one(ID).await.unwrap();
        }

        let early = remove_stale(&fixture, 2 * HOUR_MS, hours_from_now(1)).await;
        assert_eq!((early, written(&fixture.read_all().await, 7)), ((0, 1), "text".into()));
        let late = remove_stale(&fixture, 2 * HOUR_MS, hours_from_now(3)).await;

        assert_eq!(late, (1, 0));
        assert_eq!(remove_stale(&fixture, 0, hours_from_now(3)).await, (0, 0));
    }
}

#[tokio::test]
async fn a_dry_run_reports_logs_with_their_bytes_and_removes_none() {
    for is_moved in [true, false] {
        let fixture = written_to().await;
        fixture.end().await;
        if is_moved {
            fixture.logs.move_one(ID).await.unwrap();
        }

        let early = fixture.logs.clear_stale(2 * HOUR_MS, hours_from_now(1), RemovalMode::DryRun).await;
        let foretold = fixture.logs.clear_stale(2 * HOUR_MS, hours_from_now(3), RemovalMode::DryRun).await;
        let kept = written(&fixture.read_all().await, 7);
        let done = fixture.logs.clear_stale(2 * HOUR_MS, hours_from_now(3), RemovalMode::Remove).await;

        assert_eq!(
            (early, kept),
            (StaleDataCleanup { skipped: 1, ..StaleDataCleanup::default() }, "text".into())
        );
        assert_eq!((foretold, foretold.cleaned), (done, 1));
        assert!(done.bytes >= "text".len() as u64, "{done:?}");
    }
}

#[tokio::test]
async fn the_log_of_a_live_sandbox_is_kept_at_any_age() {
    let fixture = written_to().await;

    assert_eq!(remove_stale(&fixture, 0, hours_from_now(1_000)).await, (0, 1));

    assert_eq!(written(&fixture.read_all().await, 7), "text");
}

#[tokio::test]
async fn if_sandboxes_cannot_be_listed_all_logs_are_skipped() {
    let fixture = written_to().await;
    fixture.end().await;
    fixture.logs.move_one(ID).await.unwrap();
    let (logs, aside) = (fixture.directory.join("logs"), fixture.directory.join("aside"));
    fs::rename(&logs, &aside).unwrap();
    fs::write(&logs, "no directory").unwrap();

    assert_eq!(remove_stale(&fixture, 0, hours_from_now(1_000)).await, (0, 1));

    fs::remove_file(&logs).unwrap();
    fs::rename(&aside, &logs).unwrap();
    assert_eq!(written(&fixture.read_all().await, 7), "text");
}
