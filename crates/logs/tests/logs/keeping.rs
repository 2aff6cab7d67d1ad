//! How long logs are kept: from both places they go when they are old, and not before.

use std::fs;

use pinfold_lifecycle::Timestamp;
use pinfold_logs::{
    ArtifactLimits, Artifacts, Cursor, GapReason, MetricsArchive, ObjectStorage, RetentionPeriods,
};
use pinfold_store::Seq;

use crate::stage::{ID, Stage, all, written};

const DAY_MS: u64 = 24 * 3_600_000;

#[expect(clippy::disallowed_methods, reason = "files are dated by the real clock")]
fn days_from_now(days: u64) -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_millis()).unwrap()).after_ms(days * DAY_MS)
}

async fn ended() -> Stage {
    let mut stage = Stage::ready().await;
    stage.start(7).await;
    stage.write(7, "text");
    stage.finish(7).await;
    stage.end().await;
    stage
}

#[tokio::test]
async fn a_moved_log_goes_after_seven_days_and_its_record_stays() {
    let stage = ended().await;
    stage.logs.move_one(ID).await.unwrap();

    let early = stage.logs.expire(RetentionPeriods::default(), days_from_now(6)).await.unwrap();
    assert_eq!((early, written(&stage.read_all().await, 7)), (0, "text".into()));
    let late = stage.logs.expire(RetentionPeriods::default(), days_from_now(8)).await.unwrap();
    let again = stage.logs.expire(RetentionPeriods::default(), days_from_now(8)).await.unwrap();

    assert_eq!((late, again), (1, 0));
    assert!(!stage.directory.join("objects/logs").join(ID.to_string()).exists());
    assert_eq!(fs::read_dir(stage.directory.join("logs/moved")).unwrap().count(), 0);
    assert!(stage.world.store.load(ID).await.unwrap().is_some());
    assert_ne!(stage.world.store.history(Some(ID), Seq(0), 9).await.unwrap(), []);
    // What is recorded is told as long as it is there, and that the output is not.
    let page = stage.logs.read(ID, &Cursor::default(), all()).await.unwrap();
    assert!(page.entries.iter().any(|it| it.gap().is_some_and(|gap| gap.reason == GapReason::NotKept)));
}

#[tokio::test]
async fn output_that_could_not_be_moved_goes_too_but_not_that_of_the_living() {
    let stage = ended().await;
    assert_eq!(stage.logs.expire(RetentionPeriods::default(), days_from_now(6)).await.unwrap(), 0);
    assert!(stage.outputs().exists());
    assert_eq!(stage.logs.expire(RetentionPeriods::default(), days_from_now(8)).await.unwrap(), 1);
    assert!(!stage.outputs().exists());

    let mut alive = Stage::ready().await;
    alive.start(7).await;
    alive.write(7, "text");
    assert_eq!(alive.logs.expire(RetentionPeriods::default(), days_from_now(80)).await.unwrap(), 0);

    assert_eq!(written(&alive.read_all().await, 7), "text");
}

#[tokio::test]
async fn segments_without_a_manifest_are_rubbish_after_a_day() {
    let stage = ended().await;
    let place = stage.directory.join("objects/logs").join(ID.to_string());
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("000000.jsonl"), "half a log").unwrap();

    stage.logs.expire(RetentionPeriods::default(), days_from_now(0)).await.unwrap();
    assert!(place.exists());
    stage.logs.expire(RetentionPeriods::default(), days_from_now(2)).await.unwrap();

    assert!(!place.exists());
    assert_eq!(written(&stage.read_all().await, 7), "text");
}

#[tokio::test]
async fn figures_stay_for_ever_whatever_else_goes() {
    let stage = ended().await;
    stage.logs.move_one(ID).await.unwrap();
    let objects = ObjectStorage::local(&stage.directory.join("objects")).unwrap();
    MetricsArchive::new(objects.clone()).keep("2026-11-16", b"{}".to_vec()).await.unwrap();
    let (nothing, later) = (RetentionPeriods { logs_ms: 0, artifacts_ms: 0 }, days_from_now(10_000));

    let artifacts = Artifacts::new(objects, ArtifactLimits::default()).expire(nothing, later).await.unwrap();
    let logs = stage.logs.expire(nothing, later).await.unwrap();

    assert_eq!((artifacts, logs), (0, 1));
    let kept = stage.directory.join("objects/archive/metrics/2026-11-16.json");
    assert_eq!(fs::read_to_string(kept).unwrap(), "{}");
}
