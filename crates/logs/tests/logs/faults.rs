//! An object store that fails at any of its calls, before or after the call took effect.

use std::fmt;
use std::fs;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_logs::{MoveOutcome, ObjectStorage, RetentionPeriods};

use crate::fixture::{Fixture, ID};

#[derive(Debug)]
struct Faulty {
    inner: LocalFileSystem,
    calls: AtomicUsize,
    fails_at: usize,
    when: FaultTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultTime {
    Before,
    After,
}

impl Faulty {
    /// Whether this call fails, and when.
    fn fault(&self) -> Option<FaultTime> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        (call == self.fails_at).then_some(self.when)
    }
}

fn broken() -> object_store::Error {
    object_store::Error::Generic { store: "faulty", source: "injected failure".into() }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let fault = self.fault();
        if fault == Some(FaultTime::Before) {
            return Err(broken());
        }
        let done = self.inner.put_opts(location, payload, options).await;
        if fault.is_some() { Err(broken()) } else { done }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if self.fault().is_some() {
            return Err(broken());
        }
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        if self.fault().is_some() {
            return stream::once(async { Err(broken()) }).boxed();
        }
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[tokio::test]
async fn move_that_fails_at_any_call_succeeds_when_retried() {
    for when in [FaultTime::Before, FaultTime::After] {
        let mut failed = 0;
        for fails_at in 0.. {
            let mut fixture = Fixture::ready().await;
            fixture.start(7).await;
            for _ in 0..3 {
                fixture.write(7, "x".repeat(500_000).as_str());
            }
            fixture.finish(7).await;
            fixture.end().await;
            let whole = fixture.read_all().await;
            let inner = LocalFileSystem::new_with_prefix(fixture.directory.join("objects")).unwrap();
            let faulty = Faulty { inner, calls: AtomicUsize::new(0), fails_at, when };
            let objects = ObjectStorage::of(Arc::new(faulty), "").unwrap();
            let fragile = Fixture::with_objects(&fixture.directory, objects);

            let moved = fragile.logs.move_one(ID).await;
            assert_eq!(fixture.read_all().await, whole, "after a failure at call {fails_at}");
            if moved.is_ok() {
                break;
            }
            failed += 1;
            assert!(fixture.outputs().exists());
            assert!(matches!(fixture.logs.move_one(ID).await.unwrap(), MoveOutcome::Moved { .. }));
            assert_eq!(fixture.read_all().await, whole);
            assert!(!fixture.outputs().exists());
        }
        assert!(failed >= 6, "{failed} calls");
    }
}

#[tokio::test]
async fn log_that_cannot_be_deleted_does_not_keep_others_from_being_deleted() {
    let fixture = Fixture::ready().await;
    let logs = fixture.directory.join("objects/logs");
    for id in [SandboxId(8), SandboxId(9)] {
        fs::create_dir_all(logs.join(id.to_string())).unwrap();
        fs::write(logs.join(id.to_string()).join("manifest.json"), "{}").unwrap();
    }
    let inner = LocalFileSystem::new_with_prefix(fixture.directory.join("objects")).unwrap();
    let faulty = Faulty { inner, calls: AtomicUsize::new(0), fails_at: 0, when: FaultTime::Before };
    let fragile = Fixture::with_objects(&fixture.directory, ObjectStorage::of(Arc::new(faulty), "").unwrap());

    let expired = fragile.logs.expire(RetentionPeriods::default(), Timestamp(i64::MAX / 2)).await;

    assert!(expired.is_err());
    let left = |id: SandboxId| logs.join(id.to_string()).join("manifest.json").exists();
    assert_eq!([SandboxId(8), SandboxId(9)].map(left), [true, false]);
}
