//! Tests of archiving under crashes, failures and concurrent servers: each day is archived once and whole.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_logs::ObjectStorage;
use pinfold_store::{CountBatch, QUARTER_HOUR_MS};
use pinfold_store_sqlite::SqliteStore;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

const MINUTE_MS: u64 = 60_000;
/// 2026-11-16.
const MONDAY: Timestamp = Timestamp(1_794_787_200_000);

struct Fixture {
    directory: TempDir,
    store: SqliteStore,
    archive: MetricsArchive,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&directory.path().join("store")).unwrap();
        let archive = MetricsArchive::new(ObjectStorage::local(&directory.path().join("objects")).unwrap());
        Self { directory, store, archive }
    }

    async fn count(&self, at: Timestamp, number: u64) {
        let sums = CounterValues::from([("a".to_owned(), number)]);
        let minutes = BTreeMap::from([(floor_to_step(at, MINUTE_MS), sums)]);
        assert!(self.store.add_counts(CountBatch { history_range: None, minutes }).await.unwrap());
    }

    /// Samples in three minutes of Monday, and one on Tuesday.
    async fn add_days(&self) {
        for minute in [3, 4, 600] {
            self.count(MONDAY.after_ms(minute * MINUTE_MS), 1).await;
        }
        self.store.record_gauges(MONDAY, BTreeMap::from([("active".to_owned(), 2.5)])).await.unwrap();
        self.count(tuesday(), 1).await;
    }

    async fn archive(&self, before: Timestamp) -> Result<(), ArchiveDaysError> {
        archive_days(&self.store, &self.archive, before).await
    }

    async fn remaining(&self) -> Vec<Timestamp> {
        let left = self.store.metric_points(Timestamp(0), Timestamp(i64::MAX)).await.unwrap();
        left.into_iter().map(|step| step.at).collect()
    }

    fn archive_directory(&self) -> PathBuf {
        self.directory.path().join("objects/archive/metrics")
    }

    fn archived(&self) -> Vec<String> {
        names_in(&self.archive_directory())
    }

    fn document(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.archive_directory().join(name)).unwrap()).unwrap()
    }
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn tuesday() -> Timestamp {
    MONDAY.after_ms(DAY_MS)
}

fn archived_monday() -> Value {
    json!({
        "format": 1,
        "day": "2026-11-16",
        "steps": [
            {
                "at": "2026-11-16T00:00:00.000Z",
                "step_seconds": 900,
                "counters": { "a": 2 },
                "gauges": { "active": { "sum": 2.5, "samples": 1 } },
            },
            { "at": "2026-11-16T10:00:00.000Z", "step_seconds": 900, "counters": { "a": 1 }, "gauges": {} },
        ],
    })
}

#[tokio::test]
async fn a_past_day_is_archived_and_removed_from_the_store() {
    let fixture = Fixture::new();
    fixture.add_days().await;

    fixture.archive(tuesday()).await.unwrap();

    assert_eq!(fixture.archived(), ["2026-11-16.json"]);
    assert_eq!(fixture.document("2026-11-16.json"), archived_monday());
    assert_eq!(fixture.remaining().await, [tuesday()]);
}

#[tokio::test]
async fn an_incomplete_day_stays_in_the_store() {
    let fixture = Fixture::new();
    fixture.add_days().await;

    fixture.archive(Timestamp(tuesday().0 - 1)).await.unwrap();

    assert_eq!((fixture.archived(), fixture.remaining().await.len()), (vec![], 5));
}

#[tokio::test]
async fn a_failed_archive_keeps_the_day_in_the_store_until_a_retry() {
    let fixture = Fixture::new();
    fixture.add_days().await;
    let obstacle = fixture.directory.path().join("objects/archive");
    fs::write(&obstacle, "no directory").unwrap();

    let failure = fixture.archive(tuesday()).await;
    let waiting = fixture.remaining().await;
    fs::remove_file(&obstacle).unwrap();
    fixture.archive(tuesday()).await.unwrap();

    assert!(matches!(failure, Err(ArchiveDaysError::Archive { .. })), "{failure:?}");
    assert_eq!(
        waiting,
        [MONDAY, MONDAY.after_ms(40 * QUARTER_HOUR_MS), tuesday()],
        "in steps of a quarter of an hour"
    );
    assert_eq!(fixture.document("2026-11-16.json"), archived_monday());
}

#[tokio::test]
async fn a_day_archived_before_a_crash_is_archived_once() {
    let fixture = Fixture::new();
    fixture.add_days().await;
    archive_day(&fixture.store, &fixture.archive, MONDAY, tuesday()).await.unwrap();
    fixture.count(MONDAY.after_ms(MINUTE_MS), 100).await;

    fixture.archive(tuesday()).await.unwrap();

    assert_eq!(fixture.archived(), ["2026-11-16.json"]);
    assert_eq!(fixture.document("2026-11-16.json"), archived_monday());
    let left = fixture.store.metric_points(Timestamp(0), Timestamp(i64::MAX)).await.unwrap();
    assert_eq!(
        (left.len(), left[0].at, left[0].counters["a"]),
        (1, tuesday(), 101),
        "a late sample is not lost"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_servers_archive_one_identical_file() {
    let fixture = Fixture::new();
    fixture.add_days().await;
    let archiving: Vec<_> = (0..4)
        .map(|_| {
            let store = SqliteStore::open(&fixture.directory.path().join("store")).unwrap();
            let archive = fixture.archive.clone();
            tokio::spawn(async move { archive_days(&store, &archive, tuesday()).await })
        })
        .collect();

    for archived in archiving {
        archived.await.unwrap().unwrap();
    }

    assert_eq!(fixture.archived(), ["2026-11-16.json"]);
    assert_eq!(fixture.document("2026-11-16.json"), archived_monday());
    assert_eq!(fixture.remaining().await, [tuesday()]);
}

#[tokio::test]
async fn a_day_archived_by_another_store_is_not_overwritten() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    fixture.add_days().await;
    other.count(MONDAY, 7).await;

    for _ in 0..2 {
        archive_day(&fixture.store, &fixture.archive, MONDAY, tuesday()).await.unwrap();
        archive_day(&other.store, &fixture.archive, MONDAY, tuesday()).await.unwrap();
    }

    let archived = fixture.archived();
    assert_eq!(archived.len(), 2, "{archived:?}");
    let beside = archived.iter().find(|name| *name != "2026-11-16.json").unwrap();
    assert_eq!(fixture.document("2026-11-16.json"), archived_monday());
    assert_eq!(fixture.document(beside)["steps"][0]["counters"]["a"], 7);
}
