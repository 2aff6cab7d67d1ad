//! Deletion of old logs when disk space is needed: only logs of sandboxes that are proven gone, and none if they cannot
//! all be listed.

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

/// Deletes stale logs; returns the numbers of deleted and skipped ones.
async fn clear(fixture: &Fixture, age_ms: u64, now: Timestamp) -> (u64, u64) {
    let StaleDataCleanup { cleaned, skipped, .. } =
        fixture.logs.clear_stale(age_ms, now, RemovalMode::Remove).await;
    (cleaned, skipped)
}

async fn with_output() -> Fixture {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    fixture.write(7, "text");
    fixture.finish(7).await;
    fixture
}

#[tokio::test]
async fn stale_log_is_deleted_whether_moved_or_local() {
    for is_moved in [true, false] {
        let fixture = with_output().await;
        fixture.end().await;
        if is_moved {
            fixture.logs.move_one(ID).await.unwrap();
        }

        let early = clear(&fixture, 2 * HOUR_MS, hours_from_now(1)).await;
        assert_eq!((early, written(&fixture.read_all().await, 7)), ((0, 1), "text".into()));
        let late = clear(&fixture, 2 * HOUR_MS, hours_from_now(3)).await;

        assert_eq!(late, (1, 0));
        assert_eq!(clear(&fixture, 0, hours_from_now(3)).await, (0, 0));
    }
}

#[tokio::test]
async fn dry_run_reports_the_bytes_and_deletes_nothing() {
    for is_moved in [true, false] {
        let fixture = with_output().await;
        fixture.end().await;
        if is_moved {
            fixture.logs.move_one(ID).await.unwrap();
        }

        let early = fixture.logs.clear_stale(2 * HOUR_MS, hours_from_now(1), RemovalMode::DryRun).await;
        let planned = fixture.logs.clear_stale(2 * HOUR_MS, hours_from_now(3), RemovalMode::DryRun).await;
        let kept = written(&fixture.read_all().await, 7);
        let done = fixture.logs.clear_stale(2 * HOUR_MS, hours_from_now(3), RemovalMode::Remove).await;

        assert_eq!(
            (early, kept),
            (StaleDataCleanup { skipped: 1, ..StaleDataCleanup::default() }, "text".into())
        );
        assert_eq!((planned, planned.cleaned), (done, 1));
        assert!(done.bytes >= "text".len() as u64, "{done:?}");
    }
}

#[tokio::test]
async fn log_of_a_live_sandbox_is_kept_at_any_age() {
    let fixture = with_output().await;

    assert_eq!(clear(&fixture, 0, hours_from_now(1_000)).await, (0, 1));

    assert_eq!(written(&fixture.read_all().await, 7), "text");
}

#[tokio::test]
async fn logs_that_cannot_be_listed_are_skipped_and_none_is_deleted() {
    let fixture = with_output().await;
    fixture.end().await;
    fixture.logs.move_one(ID).await.unwrap();
    let (logs, aside) = (fixture.directory.join("logs"), fixture.directory.join("aside"));
    fs::rename(&logs, &aside).unwrap();
    fs::write(&logs, "no directory").unwrap();

    assert_eq!(clear(&fixture, 0, hours_from_now(1_000)).await, (0, 1));

    fs::remove_file(&logs).unwrap();
    fs::rename(&aside, &logs).unwrap();
    assert_eq!(written(&fixture.read_all().await, 7), "text");
}
