//! Retention of logs: local and moved ones are deleted after it, and not before.

use std::fs;

use pinfold_lifecycle::Timestamp;
use pinfold_logs::{
    ArtifactLimits, Artifacts, Cursor, GapReason, MetricsArchive, ObjectStorage, RetentionPeriods,
};
use pinfold_store::Seq;

use crate::fixture::{Fixture, ID, all, written};

const DAY_MS: u64 = 24 * 3_600_000;

#[expect(clippy::disallowed_methods, reason = "files are dated by the real clock")]
fn days_from_now(days: u64) -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_millis()).unwrap()).after_ms(days * DAY_MS)
}

async fn ended() -> Fixture {
    let mut fixture = Fixture::ready().await;
    fixture.start(7).await;
    fixture.write(7, "text");
    fixture.finish(7).await;
    fixture.end().await;
    fixture
}

#[tokio::test]
async fn moved_log_is_deleted_after_seven_days_and_its_record_stays() {
    let fixture = ended().await;
    fixture.logs.move_one(ID).await.unwrap();

    let early = fixture.logs.expire(RetentionPeriods::default(), days_from_now(6)).await.unwrap();
    assert_eq!((early, written(&fixture.read_all().await, 7)), (0, "text".into()));
    let late = fixture.logs.expire(RetentionPeriods::default(), days_from_now(8)).await.unwrap();
    let again = fixture.logs.expire(RetentionPeriods::default(), days_from_now(8)).await.unwrap();

    assert_eq!((late, again), (1, 0));
    assert!(!fixture.directory.join("objects/logs").join(ID.to_string()).exists());
    assert_eq!(fs::read_dir(fixture.directory.join("moved")).unwrap().count(), 0);
    assert!(fixture.driver.store.load(ID).await.unwrap().is_some());
    assert_ne!(fixture.driver.store.history(Some(ID), Seq(0), 9).await.unwrap(), []);
    // The records are still read, with a gap where the output was.
    let page = fixture.logs.read(ID, &Cursor::default(), all()).await.unwrap();
    assert!(page.entries.iter().any(|it| it.gap().is_some_and(|gap| gap.reason == GapReason::NotKept)));
}

#[tokio::test]
async fn unmoved_output_is_deleted_unless_its_sandbox_is_live() {
    let fixture = ended().await;
    assert_eq!(fixture.logs.expire(RetentionPeriods::default(), days_from_now(6)).await.unwrap(), 0);
    assert!(fixture.outputs().exists());
    assert_eq!(fixture.logs.expire(RetentionPeriods::default(), days_from_now(8)).await.unwrap(), 1);
    assert!(!fixture.outputs().exists());

    let mut alive = Fixture::ready().await;
    alive.start(7).await;
    alive.write(7, "text");
    assert_eq!(alive.logs.expire(RetentionPeriods::default(), days_from_now(80)).await.unwrap(), 0);

    assert_eq!(written(&alive.read_all().await, 7), "text");
}

#[tokio::test]
async fn segments_without_a_manifest_are_deleted_after_a_day() {
    let fixture = ended().await;
    let segments = fixture.directory.join("objects/logs").join(ID.to_string());
    fs::create_dir_all(&segments).unwrap();
    fs::write(segments.join("000000.jsonl"), "half a log").unwrap();

    fixture.logs.expire(RetentionPeriods::default(), days_from_now(0)).await.unwrap();
    assert!(segments.exists());
    fixture.logs.expire(RetentionPeriods::default(), days_from_now(2)).await.unwrap();

    assert!(!segments.exists());
    assert_eq!(written(&fixture.read_all().await, 7), "text");
}

#[tokio::test]
async fn archived_metrics_are_never_deleted() {
    let fixture = ended().await;
    fixture.logs.move_one(ID).await.unwrap();
    let objects = ObjectStorage::local(&fixture.directory.join("objects")).unwrap();
    MetricsArchive::new(objects.clone()).keep("2026-11-16", b"{}".to_vec()).await.unwrap();
    let (nothing, later) = (RetentionPeriods { logs_ms: 0, artifacts_ms: 0 }, days_from_now(10_000));

    let artifacts = Artifacts::new(objects, ArtifactLimits::default()).expire(nothing, later).await.unwrap();
    let logs = fixture.logs.expire(nothing, later).await.unwrap();

    assert_eq!((artifacts, logs), (0, 1));
    let kept = fixture.directory.join("objects/archive/metrics/2026-11-16.json");
    assert_eq!(fs::read_to_string(kept).unwrap(), "{}");
}
