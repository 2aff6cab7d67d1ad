//! Logs that go because room is needed: only what is old and proven gone, and none where they cannot be listed.

use std::fs;

use pinfold_lifecycle::{StaleDataCleanup, Timestamp};
use pinfold_logs::RemovalMode;

use crate::stage::{ID, Stage, written};

const HOUR_MS: u64 = 3_600_000;

#[expect(clippy::disallowed_methods, reason = "files are dated by the real clock")]
fn hours_from_now(hours: u64) -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_millis()).unwrap()).after_ms(hours * HOUR_MS)
}

/// Which ones, whatever they took.
async fn clear(stage: &Stage, age_ms: u64, now: Timestamp) -> (u64, u64) {
    let StaleDataCleanup { cleaned, skipped, .. } =
        stage.logs.clear_stale(age_ms, now, RemovalMode::Remove).await;
    (cleaned, skipped)
}

async fn written_to() -> Stage {
    let mut stage = Stage::ready().await;
    stage.start(7).await;
    stage.write(7, "text");
    stage.finish(7).await;
    stage
}

#[tokio::test]
async fn a_log_goes_when_it_is_old_enough_wherever_it_lies() {
    for is_moved in [true, false] {
        let stage = written_to().await;
        stage.end().await;
        if is_moved {
            stage.logs.move_one(ID).await.unwrap();
        }

        let early = clear(&stage, 2 * HOUR_MS, hours_from_now(1)).await;
        assert_eq!((early, written(&stage.read_all().await, 7)), ((0, 1), "text".into()));
        let late = clear(&stage, 2 * HOUR_MS, hours_from_now(3)).await;

        assert_eq!(late, (1, 0));
        assert_eq!(clear(&stage, 0, hours_from_now(3)).await, (0, 0));
    }
}

#[tokio::test]
async fn what_would_go_is_told_with_its_bytes_and_stays() {
    for is_moved in [true, false] {
        let stage = written_to().await;
        stage.end().await;
        if is_moved {
            stage.logs.move_one(ID).await.unwrap();
        }

        let early = stage.logs.clear_stale(2 * HOUR_MS, hours_from_now(1), RemovalMode::DryRun).await;
        let foretold = stage.logs.clear_stale(2 * HOUR_MS, hours_from_now(3), RemovalMode::DryRun).await;
        let kept = written(&stage.read_all().await, 7);
        let done = stage.logs.clear_stale(2 * HOUR_MS, hours_from_now(3), RemovalMode::Remove).await;

        assert_eq!(
            (early, kept),
            (StaleDataCleanup { skipped: 1, ..StaleDataCleanup::default() }, "text".into())
        );
        assert_eq!((foretold, foretold.cleaned), (done, 1));
        assert!(done.bytes >= "text".len() as u64, "{done:?}");
    }
}

#[tokio::test]
async fn a_log_of_the_living_stays_however_old_it_is() {
    let stage = written_to().await;

    assert_eq!(clear(&stage, 0, hours_from_now(1_000)).await, (0, 1));

    assert_eq!(written(&stage.read_all().await, 7), "text");
}

#[tokio::test]
async fn where_logs_cannot_be_listed_none_goes_and_all_are_counted_as_skipped() {
    let stage = written_to().await;
    stage.end().await;
    stage.logs.move_one(ID).await.unwrap();
    let (logs, aside) = (stage.directory.join("logs"), stage.directory.join("aside"));
    fs::rename(&logs, &aside).unwrap();
    fs::write(&logs, "no directory").unwrap();

    assert_eq!(clear(&stage, 0, hours_from_now(1_000)).await, (0, 1));

    fs::remove_file(&logs).unwrap();
    fs::rename(&aside, &logs).unwrap();
    assert_eq!(written(&stage.read_all().await, 7), "text");
}
