//! Artifacts of runs: stored whole or not at all, limited in size and number, under any valid name.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use pinfold_lifecycle::Timestamp;
use pinfold_logs::{
    Artifact, ArtifactError, ArtifactLimits, Artifacts, ObjectStorage, RemovalMode, RetentionPeriods,
};

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const RUN: &str = "run_1";

struct ArtifactFixture {
    artifacts: Artifacts,
    directory: tempfile::TempDir,
}

impl ArtifactFixture {
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

    /// The number of files of the run, incomplete uploads included.
    fn files(&self) -> usize {
        let run = self.directory.path().join("objects/artifacts").join(RUN);
        std::fs::read_dir(run).map_or(0, Iterator::count)
    }
}

#[tokio::test]
async fn artifact_is_read_back_unchanged_with_its_description() {
    let fixture = ArtifactFixture::new(ArtifactLimits::default());
    let large = vec![7; 12_000_000];

    let made = fixture.put("reports/größe 1.txt", &[b"hello ", b"world"]).await.unwrap();
    fixture.put("large", &[&large, &large]).await.unwrap();
    fixture.put("empty", &[]).await.unwrap();

    let sha256 = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9";
    assert_eq!((made.size, made.sha256.as_str(), made.created_at), (11, sha256, NOW));
    assert_eq!(fixture.get("reports/größe 1.txt").await.unwrap(), (made, b"hello world".to_vec()));
    assert_eq!(fixture.get("large").await.unwrap().1.len(), 24_000_000);
    assert_eq!(fixture.get("empty").await.unwrap().1, b"");
    assert!(fixture.get("reports").await.is_none());
    let names: Vec<_> = fixture.artifacts.list(RUN).await.unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["empty", "large", "reports/größe 1.txt"]);
    assert_eq!(fixture.artifacts.list("run_2").await.unwrap(), []);
}

#[tokio::test]
async fn put_under_the_same_name_replaces_the_artifact() {
    let fixture = ArtifactFixture::new(ArtifactLimits { artifacts: 1, ..ArtifactLimits::default() });
    fixture.put("a", &[b"one"]).await.unwrap();
    let (_, begun) = fixture.artifacts.get(RUN, "a").await.unwrap();

    fixture.put("a", &[b"two"]).await.unwrap();

    assert_eq!(fixture.get("a").await.unwrap().1, b"two");
    assert_eq!(fixture.artifacts.list(RUN).await.unwrap().len(), 1);
    assert_eq!(fixture.files(), 2);
    drop(begun);
    assert!(matches!(fixture.put("b", &[b"x"]).await, Err(ArtifactError::TooMany { limit: 1 })));
}

#[tokio::test]
async fn put_that_is_too_large_or_fails_leaves_nothing() {
    let fixture = ArtifactFixture::new(ArtifactLimits { bytes: 10, ..ArtifactLimits::default() });
    let failing = stream::iter([Ok(Bytes::from_static(b"half")), Err(std::io::Error::other("cut"))]);

    let too_long = fixture.put("a", &[b"12345", b"678901"]).await;
    let failed = fixture.artifacts.put(RUN, "a", "text/plain", failing, NOW).await;

    assert!(matches!(too_long, Err(ArtifactError::TooLarge { limit: 10 })));
    assert!(matches!(failed, Err(ArtifactError::Content { .. })));
    assert!(fixture.get("a").await.is_none());
    assert_eq!(fixture.files(), 0);
    assert!(fixture.put("a", &[b"1234567890"]).await.is_ok());
}

#[tokio::test]
async fn invalid_names_and_content_types_are_refused() {
    let fixture = ArtifactFixture::new(ArtifactLimits::default());
    let nothing = || stream::iter(Vec::new());

    for (run, name, content_type) in [
        ("../x", "a", "text/plain"),
        (RUN, "../a", "text/plain"),
        (RUN, "/etc/passwd", "text/plain"),
        (RUN, "a", "text/plain\r\nX: y"),
        (RUN, "a", ""),
    ] {
        assert!(fixture.artifacts.put(run, name, content_type, nothing(), NOW).await.is_err());
    }
    assert!(matches!(fixture.artifacts.get(RUN, "..").await, Err(ArtifactError::Name(_))));
    assert!(matches!(fixture.artifacts.list("a/b").await, Err(ArtifactError::Name(_))));
}

#[tokio::test]
async fn artifacts_and_abandoned_uploads_are_deleted_after_their_retention() {
    let fixture = ArtifactFixture::new(ArtifactLimits::default());
    fixture.put("a", &[b"x"]).await.unwrap();
    let orphan = fixture.directory.path().join("objects/artifacts").join(RUN).join("0123.upload");
    std::fs::write(&orphan, "an upload without a description").unwrap();
    let written = std::fs::metadata(&orphan).unwrap().modified().unwrap();
    let now = i64::try_from(written.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let days = |days: i64| Timestamp(now + days * 24 * 3_600_000);

    assert_eq!(fixture.artifacts.expire(RetentionPeriods::default(), days(2)).await.unwrap(), 0);
    assert!(!orphan.exists());
    let planned = fixture
        .artifacts
        .clear_stale(RetentionPeriods::default(), days(8), RemovalMode::DryRun)
        .await
        .unwrap();
    assert_eq!(fixture.get("a").await.unwrap().1, b"x");
    let gone = fixture
        .artifacts
        .clear_stale(RetentionPeriods::default(), days(8), RemovalMode::Remove)
        .await
        .unwrap();

    assert_eq!((planned, planned.count), (gone, 1));
    assert!(gone.bytes > 1, "the description counts too");
    assert!(fixture.get("a").await.is_none());
    assert_eq!(fixture.files(), 0);
}
