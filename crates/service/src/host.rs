//! An engine in this process with its store, provider, logs and images. What they are is the caller's choice
//! (`pinfold-host` opens SQLite and the Linux provider).

use std::path::PathBuf;
use std::sync::Arc;

use pinfold_engine::{Cleaner, Clock, Config, Engine, EngineStartError, NodeLiveness, Parts, RandomIds};
use pinfold_images::{Images, Unpacker};
use pinfold_logs::{ArtifactLimits, Artifacts, Logs, MetricsArchive, RetentionPeriods};
use pinfold_metrics::ProcessMetrics;
use pinfold_notify::telemetry::Spans;
use pinfold_provider::Provider;
use pinfold_store::Stores;

use crate::artifacts::Collection;
use crate::cleanup_recorder::CleanupRecorder;
use crate::engine_observer::EngineObserver;
use crate::stale_files::StaleFiles;
use crate::temporary_files;
use crate::{ObjectStoreConfig, OpenObjectStoreError};

/// What a host runs on.
pub struct HostParts {
    pub store: Arc<dyn Stores>,
    pub provider: Arc<dyn Provider>,
    pub clock: Arc<dyn Clock>,
    pub liveness: Arc<dyn NodeLiveness>,
    pub images: ImageStoreLocation,
}

/// The data directory, engine and retention settings of a host.
#[derive(Debug, Clone)]
pub struct HostConfig {
    pub data: PathBuf,
    pub engine: Config,
    pub objects: ObjectStoreConfig,
    /// Retention of logs and artifacts.
    pub keep: RetentionPeriods,
    /// When the disk is short, logs that were archived or last written this long ago may be removed.
    pub stale_after_ms: u64,
}

/// Wraps a part in a test decorator.
pub type Wrap<T> = Box<dyn FnOnce(T) -> T + Send>;

pub struct Host {
    pub engine: Engine,
    pub provider: Arc<dyn Provider>,
    pub store: Arc<dyn Stores>,
    pub clock: Arc<dyn Clock>,
    pub data: PathBuf,
    /// Logs of sandboxes, also after their end.
    pub logs: Logs,
    /// Runs scheduled and requested cleanups.
    pub cleaner: Arc<Cleaner>,
    pub(crate) collection: Collection,
    /// Collects counters of this process until they are flushed to the store.
    pub meter: Arc<ProcessMetrics>,
    pub(crate) metrics_archive: MetricsArchive,
    pub(crate) spans: Spans,
    images: ImageStoreLocation,
}

#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error(transparent)]
    Objects(#[from] OpenObjectStoreError),
    #[error(transparent)]
    Begin(#[from] EngineStartError),
}

impl Host {
    /// Starts an engine on these parts. `wrap` decorates what the engine sees of them; only tests do so.
    pub async fn begin(parts: HostParts, config: HostConfig, wrap: Wrap<Parts>) -> Result<Self, HostError> {
        let HostParts { store, provider, clock, liveness, images } = parts;
        let HostConfig { data, engine, objects, keep, stale_after_ms } = config;
        temporary_files::remove_ownerless(&data);
        let objects = objects.open(&data)?;
        let metrics_archive = MetricsArchive::new(objects.clone());
        let collection = Collection {
            artifacts: Artifacts::new(objects.clone(), ArtifactLimits::default()),
            clock: clock.clone(),
        };
        let logs = Logs::new(store.clone(), provider.output(), &data.join("moved-logs"), objects);
        let (meter, spans) = (Arc::new(ProcessMetrics::default()), Spans::default());
        let parts = Parts {
            store: store.clone(),
            provider: provider.clone(),
            artifacts: Arc::new(collection.clone()),
            clock: clock.clone(),
            ids: Arc::new(RandomIds),
            liveness,
        };
        let engine = Engine::start(wrap(parts), engine).await?;
        let observer = EngineObserver { meter: meter.clone(), spans: spans.clone() };
        engine.set_observer(Arc::new(observer));
        engine.set_stale_data(Arc::new(StaleFiles {
            logs: logs.clone(),
            artifacts: collection.artifacts.clone(),
            clock: clock.clone(),
            keep: RetentionPeriods { logs_ms: stale_after_ms, ..keep },
        }));
        let recorder = CleanupRecorder { meter: meter.clone(), clock: clock.clone(), spans: spans.clone() };
        let cleaner = engine.start_cleanup(store.clone(), Some(Arc::new(recorder)));
        Ok(Self {
            engine,
            provider,
            store,
            clock,
            data,
            logs,
            cleaner,
            collection,
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

/// Where the image store is, and the program that unpacks archives into it. It is opened on first use.
#[derive(Clone)]
pub struct ImageStoreLocation {
    pub directory: PathBuf,
    pub unpacker: Unpacker,
}

impl ImageStoreLocation {
    pub fn open(&self) -> Result<Images, pinfold_images::OpenError> {
        Images::open(&self.directory, self.unpacker.clone())
    }
}
