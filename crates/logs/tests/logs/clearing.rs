//! Logs that go because room is needed: only what is old and proven gone, and none where they cannot be listed.

use std::fs;

use pinfold_lifecycle::{Cleared, Timestamp};

use crate::stage::{ID, Stage, written};

const HOUR_MS: u64 = 3_600_000;

#[expect(clippy::disallowed_methods, reason = "files are dated by the real clock")]
fn hours_from_now(hours: u64) -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_millis()).unwrap()).after_ms(hours * HOUR_MS)
}

fn cleared(cleaned: u64, skipped: u64) -> Cleared {
    Cleared { cleaned, skipped }
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

        let early = stage.logs.clear_stale(2 * HOUR_MS, hours_from_now(1)).await;
        assert_eq!((early, written(&stage.read_all().await, 7)), (cleared(0, 1), "text".into()));
        let late = stage.logs.clear_stale(2 * HOUR_MS, hours_from_now(3)).await;

        assert_eq!(late, cleared(1, 0));
        assert_eq!(stage.logs.clear_stale(0, hours_from_now(3)).await, cleared(0, 0));
    }
}

#[tokio::test]
async fn a_log_of_the_living_stays_however_old_it_is() {
    let stage = written_to().await;

    assert_eq!(stage.logs.clear_stale(0, hours_from_now(1_000)).await, cleared(0, 1));

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

    assert_eq!(stage.logs.clear_stale(0, hours_from_now(1_000)).await, cleared(0, 1));

    fs::remove_file(&logs).unwrap();
    fs::rename(&aside, &logs).unwrap();
    assert_eq!(written(&stage.read_all().await, 7), "text");
}
