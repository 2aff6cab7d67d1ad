//! Artifacts of runs: whole or not at all, within their bounds, under any name that is one.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use pinfold_lifecycle::Timestamp;
use pinfold_logs::{
    Artifact, ArtifactError, ArtifactLimits, Artifacts, ObjectStorage, RemovalMode, RetentionPeriods,
};

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const RUN: &str = "run_1";

struct Shelf {
    artifacts: Artifacts,
    directory: tempfile::TempDir,
}

impl Shelf {
    fn new(limits: ArtifactLimits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let objects = ObjectStorage::local(&directory.path().join("objects")).unwrap();
        Self { artifacts: Artifacts::new(objects, limits), directory }
    }

    async fn put(&self, name: &str, parts: &[&[u8]]) -> Result<Artifact, ArtifactError> {
        let parts: Vec<_> = parts.iter().map(|part| Ok(Bytes::copy_from_slice(part))).collect();
        self.artifacts.put(RUN, name, "text/plain", stream::iter(parts), NOW).await
    }

    async fn get(&self, name: &str) -> Option<(Artifact, Vec<u8>)> {
        let (artifact, content) = match self.artifacts.get(RUN, name).await {
            Err(ArtifactError::NoSuchArtifact { .. }) => return None,
            other => other.unwrap(),
        };
        let parts: Vec<Bytes> = content.map(Result::unwrap).collect().await;
        Some((artifact, parts.concat()))
    }

    /// Files of the run, those that are only begun too.
    fn files(&self) -> usize {
        let run = self.directory.path().join("objects/artifacts").join(RUN);
        std::fs::read_dir(run).map_or(0, Iterator::count)
    }
}

#[tokio::test]
async fn an_artifact_comes_back_as_it_was_put_with_what_describes_it() {
    let shelf = Shelf::new(ArtifactLimits::default());
    let large = vec![7; 12_000_000];

    let made = shelf.put("reports/größe 1.txt", &[b"hello ", b"world"]).await.unwrap();
    shelf.put("large", &[&large, &large]).await.unwrap();
    shelf.put("empty", &[]).await.unwrap();

    let sha256 = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9";
    assert_eq!((made.size, made.sha256.as_str(), made.created_at), (11, sha256, NOW));
    assert_eq!(shelf.get("reports/größe 1.txt").await.unwrap(), (made, b"hello world".to_vec()));
    assert_eq!(shelf.get("large").await.unwrap().1.len(), 24_000_000);
    assert_eq!(shelf.get("empty").await.unwrap().1, b"");
    assert!(shelf.get("reports").await.is_none());
    let names: Vec<_> = shelf.artifacts.list(RUN).await.unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["empty", "large", "reports/größe 1.txt"]);
    assert_eq!(shelf.artifacts.list("run_2").await.unwrap(), []);
}

#[tokio::test]
async fn the_same_name_again_replaces_it() {
    let shelf = Shelf::new(ArtifactLimits { artifacts: 1, ..ArtifactLimits::default() });
    shelf.put("a", &[b"one"]).await.unwrap();
    let (_, begun) = shelf.artifacts.get(RUN, "a").await.unwrap();

    shelf.put("a", &[b"two"]).await.unwrap();

    assert_eq!(shelf.get("a").await.unwrap().1, b"two");
    assert_eq!(shelf.artifacts.list(RUN).await.unwrap().len(), 1);
    assert_eq!(shelf.files(), 2);
    drop(begun);
    assert!(matches!(shelf.put("b", &[b"x"]).await, Err(ArtifactError::TooMany { limit: 1 })));
}

#[tokio::test]
async fn what_is_too_long_or_fails_leaves_nothing() {
    let shelf = Shelf::new(ArtifactLimits { bytes: 10, ..ArtifactLimits::default() });
    let failing = stream::iter([Ok(Bytes::from_static(b"half")), Err(std::io::Error::other("cut"))]);

    let too_long = shelf.put("a", &[b"12345", b"678901"]).await;
    let failed = shelf.artifacts.put(RUN, "a", "text/plain", failing, NOW).await;

    assert!(matches!(too_long, Err(ArtifactError::TooLarge { limit: 10 })));
    assert!(matches!(failed, Err(ArtifactError::Content { .. })));
    assert!(shelf.get("a").await.is_none());
    assert_eq!(shelf.files(), 0);
    assert!(shelf.put("a", &[b"1234567890"]).await.is_ok());
}

#[tokio::test]
async fn names_that_are_none_are_refused() {
    let shelf = Shelf::new(ArtifactLimits::default());
    let nothing = || stream::iter(Vec::new());

    for (run, name, content_type) in [
        ("../x", "a", "text/plain"),
        (RUN, "../a", "text/plain"),
        (RUN, "/etc/passwd", "text/plain"),
        (RUN, "a", "text/plain\r\nX: y"),
        (RUN, "a", ""),
    ] {
        assert!(shelf.artifacts.put(run, name, content_type, nothing(), NOW).await.is_err());
    }
    assert!(matches!(shelf.artifacts.get(RUN, "..").await, Err(ArtifactError::Name(_))));
    assert!(matches!(shelf.artifacts.list("a/b").await, Err(ArtifactError::Name(_))));
}

#[tokio::test]
async fn artifacts_go_when_they_are_old() {
    let shelf = Shelf::new(ArtifactLimits::default());
    shelf.put("a", &[b"x"]).await.unwrap();
    let orphan = shelf.directory.path().join("objects/artifacts").join(RUN).join("0123.upload");
    std::fs::write(&orphan, "nobody described it").unwrap();
    let written = std::fs::metadata(&orphan).unwrap().modified().unwrap();
    let now = i64::try_from(written.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let days = |days: i64| Timestamp(now + days * 24 * 3_600_000);

    assert_eq!(shelf.artifacts.expire(RetentionPeriods::default(), days(2)).await.unwrap(), 0);
    assert!(!orphan.exists());
    let foretold =
        shelf.artifacts.clear_stale(RetentionPeriods::default(), days(8), RemovalMode::DryRun).await.unwrap();
    assert_eq!(shelf.get("a").await.unwrap().1, b"x");
    let gone =
        shelf.artifacts.clear_stale(RetentionPeriods::default(), days(8), RemovalMode::Remove).await.unwrap();

    assert_eq!((foretold, foretold.count), (gone, 1));
    assert!(gone.bytes > 1, "what describes it takes room too");
    assert!(shelf.get("a").await.is_none());
    assert_eq!(shelf.files(), 0);
}
