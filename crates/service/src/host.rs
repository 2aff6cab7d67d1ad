//! An engine in this process, on the store and the instances of a data directory.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use pinfold_engine::{
    AnchorError, Cleaner, Clock, Config, Engine, EngineStartError, HostClock, HostLiveness,
    HostLivenessError, Parts, RandomIds,
};
use pinfold_images::{Images, LAYER_IDS_FIRST, Unpacker};
use pinfold_linux::{FIRST_LAYER_ID, FindLayers, LinuxConfig, LinuxProvider, RootLayer, SpawnerProgram};
use pinfold_logs::{ArtifactLimits, Artifacts, Logs, MetricsArchive, RetentionPeriods};
use pinfold_metrics::ProcessMetrics;
use pinfold_store::{OpenError, Store};
use pinfold_store_sqlite::SqliteStore;

use crate::cleanup_recorder::CleanupRecorder;
use crate::collecting::Collection;
use crate::directory_watch::DirectoryWatcher;
use crate::engine_observer::EngineObserver;
use crate::stale_files::StaleFiles;
use crate::{ObjectStoreConfig, OpenObjectStoreError};
use pinfold_notify::telemetry::Spans;

/// The data directory, helper programs and retention settings of a host.
#[derive(Clone)]
pub struct HostConfig {
    pub data: PathBuf,
    /// The programs that start keepers and unpack archives.
    pub spawner: SpawnerProgram,
    pub unpacker: Unpacker,
    pub engine: Config,
    pub objects: ObjectStoreConfig,
    /// Retention of logs and artifacts.
    pub keep: RetentionPeriods,
    /// When the disk is short, logs that were archived or last written this long ago may be removed.
    pub stale_after_ms: u64,
}

/// Wraps a part in a test decorator.
pub type Wrap<T> = Box<dyn FnOnce(T) -> T + Send>;

/// Decorators that tests put between an engine and its surroundings. Identity by default.
pub struct TestHooks {
    pub clock: Wrap<Arc<dyn Clock>>,
    /// Wraps the engine's own parts; their clock is already wrapped by `clock`.
    pub parts: Wrap<Parts>,
}

impl Default for TestHooks {
    fn default() -> Self {
        Self { clock: Box::new(|clock| clock), parts: Box::new(|parts| parts) }
    }
}

pub struct Host {
    pub engine: Engine,
    pub provider: Arc<LinuxProvider>,
    pub store: Arc<SqliteStore>,
    pub clock: Arc<dyn Clock>,
    pub data: PathBuf,
    /// Logs of sandboxes, also after their end.
    pub logs: Logs,
    /// Runs scheduled and requested cleanups.
    pub cleaner: Arc<Cleaner>,
    pub(crate) collection: Collection,
    pub(crate) watcher: DirectoryWatcher,
    /// Collects counters of this process until they are flushed to the store.
    pub meter: Arc<ProcessMetrics>,
    pub(crate) metrics_archive: MetricsArchive,
    pub(crate) spans: Spans,
    images: ImageStoreLocation,
}

#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("could not create directory `{}`", path.display())]
    MakeDirectory { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Liveness(#[from] HostLivenessError),
    #[error(transparent)]
    Clock(#[from] AnchorError),
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(transparent)]
    Provider(#[from] pinfold_linux::OpenError),
    #[error(transparent)]
    Objects(#[from] OpenObjectStoreError),
    #[error(transparent)]
    Begin(#[from] EngineStartError),
}

/// Images are unpacked with the ids that the provider mounts them with.
const _: () = assert!(LAYER_IDS_FIRST == FIRST_LAYER_ID);

impl Host {
    pub async fn begin(config: HostConfig) -> Result<Self, HostError> {
        Self::begin_with(config, TestHooks::default()).await
    }

    pub async fn begin_with(config: HostConfig, seams: TestHooks) -> Result<Self, HostError> {
        let HostConfig { data, spawner, unpacker, engine, objects, keep, stale_after_ms } = config;
        std::fs::create_dir_all(&data)
            .map_err(|source| HostError::MakeDirectory { path: data.clone(), source })?;
        let liveness = HostLiveness::take()?;
        let clock = (seams.clock)(Arc::new(HostClock::anchored(&data, liveness.boot_id())?));
        let store = Arc::new(SqliteStore::open(&data.join("store"))?);
        let now = clock.clone();
        let provider = LinuxProvider::open(LinuxConfig {
            data: data.join("linux"),
            store_id: store.store_id(),
            spawner,
            clock: Arc::new(move || now.now()),
        })?;
        let images = ImageStoreLocation { directory: data.join("images"), unpacker };
        let provider = Arc::new(provider.with_images(images.find_layers()));
        let objects = objects.open(&data)?;
        let metrics_archive = MetricsArchive::new(objects.clone());
        let collection = Collection {
            artifacts: Artifacts::new(objects.clone(), ArtifactLimits::default()),
            clock: clock.clone(),
        };
        let logs = Logs::new(store.clone(), provider.outputs(), objects);
        let (meter, spans) = (Arc::new(ProcessMetrics::default()), Spans::default());
        let parts = Parts {
            store: store.clone(),
            provider: provider.clone(),
            artifacts: Arc::new(collection.clone()),
            clock: clock.clone(),
            ids: Arc::new(RandomIds),
            liveness: Arc::new(liveness),
        };
        let engine = Engine::start((seams.parts)(parts), engine).await?;
        let observer = EngineObserver { meter: meter.clone(), spans: spans.clone() };
        engine.set_observer(Arc::new(observer));
        engine.set_stale_data(Arc::new(StaleFiles {
            logs: logs.clone(),
            artifacts: collection.artifacts.clone(),
            clock: clock.clone(),
            keep: RetentionPeriods { logs_ms: stale_after_ms, ..keep },
        }));
        let witness = CleanupRecorder { meter: meter.clone(), clock: clock.clone(), spans: spans.clone() };
        let cleaner = engine.start_cleanup(store.clone(), Some(Arc::new(witness)));
        let watcher = DirectoryWatcher::default();
        Ok(Self {
            engine,
            provider,
            store,
            clock,
            data,
            logs,
            cleaner,
            collection,
            watcher,
            meter,
            metrics_archive,
            spans,
            images,
        })
    }

    /// Opens the image store.
    pub fn images(&self) -> Result<Images, pinfold_images::OpenError> {
        self.images.open()
    }
}

/// The location of the image store. It is opened on first use.
#[derive(Clone)]
struct ImageStoreLocation {
    directory: PathBuf,
    unpacker: Unpacker,
}

impl ImageStoreLocation {
    fn open(&self) -> Result<Images, pinfold_images::OpenError> {
        Images::open(&self.directory, self.unpacker.clone())
    }

    /// The callback by which the provider finds an image's layers.
    fn find_layers(&self) -> Arc<FindLayers> {
        // Without root there is one id only, and the layers belong to it.
        let first_id = rustix::process::getuid().is_root().then_some(LAYER_IDS_FIRST);
        let location = self.clone();
        Arc::new(move |name| {
            let images = location.open().map_err(io::Error::other)?;
            let found = images.find(name).and_then(|image| images.layers(&image.id));
            let layers = found.map_err(io::Error::other)?;
            Ok(layers.into_iter().map(|path| RootLayer { path, first_id }).collect())
        })
    }
}
