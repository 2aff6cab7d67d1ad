//! What is in the archive after all that can come between: once, whole, and nothing gone that is not there.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_logs::Objects;
use pinfold_store::{Count, QUARTER_MS, SqliteStore};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

const MINUTE_MS: u64 = 60_000;
/// 2026-11-16.
const MONDAY: Timestamp = Timestamp(1_794_787_200_000);

struct Stage {
    directory: TempDir,
    store: SqliteStore,
    archive: FiguresArchive,
}

impl Stage {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&directory.path().join("store")).unwrap();
        let archive = FiguresArchive::new(Objects::local(&directory.path().join("objects")).unwrap());
        Self { directory, store, archive }
    }

    async fn counts(&self, at: Timestamp, number: u64) {
        let sums = Sums::from([("a".to_owned(), number)]);
        let minutes = BTreeMap::from([(step_of(at, MINUTE_MS), sums)]);
        assert!(self.store.count(Count { span: None, minutes }).await.unwrap());
    }

    /// Something in three minutes of Monday, and something on Tuesday.
    async fn some_days(&self) {
        for minute in [3, 4, 600] {
            self.counts(MONDAY.after_ms(minute * MINUTE_MS), 1).await;
        }
        self.store.sample(MONDAY, BTreeMap::from([("active".to_owned(), 2.5)])).await.unwrap();
        self.counts(tuesday(), 1).await;
    }

    async fn archive(&self, before: Timestamp) -> Result<(), ArchiveDaysError> {
        archive_days(&self.store, &self.archive, before).await
    }

    async fn left(&self) -> Vec<Timestamp> {
        let left = self.store.measured(Timestamp(0), Timestamp(i64::MAX)).await.unwrap();
        left.into_iter().map(|step| step.at).collect()
    }

    fn figures(&self) -> PathBuf {
        self.directory.path().join("objects/archive/figures")
    }

    fn archived(&self) -> Vec<String> {
        names_in(&self.figures())
    }

    fn document(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.figures().join(name)).unwrap()).unwrap()
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

fn monday_as_told() -> Value {
    json!({
        "format": 1,
        "day": "2026-11-16",
        "steps": [
            {
                "at": "2026-11-16T00:00:00.000Z",
                "step_seconds": 900,
                "sums": { "a": 2 },
                "gauges": { "active": { "sum": 2.5, "times": 1 } },
            },
            { "at": "2026-11-16T10:00:00.000Z", "step_seconds": 900, "sums": { "a": 1 }, "gauges": {} },
        ],
    })
}

#[tokio::test]
async fn a_day_that_is_past_is_in_the_archive_when_it_leaves_the_store() {
    let stage = Stage::new();
    stage.some_days().await;

    stage.archive(tuesday()).await.unwrap();

    assert_eq!(stage.archived(), ["2026-11-16.json"]);
    assert_eq!(stage.document("2026-11-16.json"), monday_as_told());
    assert_eq!(stage.left().await, [tuesday()]);
}

#[tokio::test]
async fn a_day_that_is_not_whole_stays_where_it_is() {
    let stage = Stage::new();
    stage.some_days().await;

    stage.archive(Timestamp(tuesday().0 - 1)).await.unwrap();

    assert_eq!((stage.archived(), stage.left().await.len()), (vec![], 5));
}

#[tokio::test]
async fn an_archive_that_cannot_be_written_keeps_the_figures_in_the_store_until_it_can() {
    let stage = Stage::new();
    stage.some_days().await;
    let obstacle = stage.directory.path().join("objects/archive");
    fs::write(&obstacle, "no directory").unwrap();

    let failure = stage.archive(tuesday()).await;
    let waiting = stage.left().await;
    fs::remove_file(&obstacle).unwrap();
    stage.archive(tuesday()).await.unwrap();

    assert!(matches!(failure, Err(ArchiveDaysError::Archive { .. })), "{failure:?}");
    assert_eq!(waiting, [MONDAY, MONDAY.after_ms(40 * QUARTER_MS), tuesday()], "as quarters of hours");
    assert_eq!(stage.document("2026-11-16.json"), monday_as_told());
}

#[tokio::test]
async fn what_a_crash_left_archived_and_in_the_store_is_archived_once() {
    let stage = Stage::new();
    stage.some_days().await;
    archive_day(&stage.store, &stage.archive, MONDAY, tuesday()).await.unwrap();
    stage.counts(MONDAY.after_ms(MINUTE_MS), 100).await;

    stage.archive(tuesday()).await.unwrap();

    assert_eq!(stage.archived(), ["2026-11-16.json"]);
    assert_eq!(stage.document("2026-11-16.json"), monday_as_told());
    let left = stage.store.measured(Timestamp(0), Timestamp(i64::MAX)).await.unwrap();
    assert_eq!(
        (left.len(), left[0].at, left[0].sums["a"]),
        (1, tuesday(), 101),
        "what came late is not lost"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_servers_that_archive_at_once_each_leaves_the_same_one_file() {
    let stage = Stage::new();
    stage.some_days().await;
    let archiving: Vec<_> = (0..4)
        .map(|_| {
            let store = SqliteStore::open(&stage.directory.path().join("store")).unwrap();
            let archive = stage.archive.clone();
            tokio::spawn(async move { archive_days(&store, &archive, tuesday()).await })
        })
        .collect();

    for archived in archiving {
        archived.await.unwrap().unwrap();
    }

    assert_eq!(stage.archived(), ["2026-11-16.json"]);
    assert_eq!(stage.document("2026-11-16.json"), monday_as_told());
    assert_eq!(stage.left().await, [tuesday()]);
}

#[tokio::test]
async fn what_another_store_has_told_of_a_day_is_not_written_over() {
    let (stage, other) = (Stage::new(), Stage::new());
    stage.some_days().await;
    other.counts(MONDAY, 7).await;

    for _ in 0..2 {
        archive_day(&stage.store, &stage.archive, MONDAY, tuesday()).await.unwrap();
        archive_day(&other.store, &stage.archive, MONDAY, tuesday()).await.unwrap();
    }

    let archived = stage.archived();
    assert_eq!(archived.len(), 2, "{archived:?}");
    let beside = archived.iter().find(|name| *name != "2026-11-16.json").unwrap();
    assert_eq!(stage.document("2026-11-16.json"), monday_as_told());
    assert_eq!(stage.document(beside)["steps"][0]["sums"]["a"], 7);
}
