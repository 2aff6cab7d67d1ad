//! An engine in this very process, on the store and the sandboxes of a data directory.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use pinfold_engine::{
    AnchorError, BeginError, Cleaner, Clock, Config, Engine, HostCensus, HostCensusError, HostClock, Parts,
    RandomIds,
};
use pinfold_images::{Images, LAYER_IDS_FIRST, Unpacker};
use pinfold_linux::{FIRST_LAYER_ID, FindLayers, Layer, LinuxConfig, LinuxProvider, NurseryProgram};
use pinfold_logs::{ArtifactLimits, Artifacts, FiguresArchive, Keep, Logs};
use pinfold_metrics::Meter;
use pinfold_store::{OpenError, SqliteStore, Store};

use crate::attended::Attended;
use crate::cleanup_counter::CleanupCounter;
use crate::collecting::Collection;
use crate::stale::OldFiles;
use crate::telemetry::Spans;
use crate::watches::Watches;
use crate::{ObjectsPlace, OpenObjectsError};

/// Where everything is, and which programs help.
#[derive(Clone)]
pub struct HostConfig {
    pub data: PathBuf,
    /// How keepers are born, and how archives are unpacked.
    pub nursery: NurseryProgram,
    pub unpacker: Unpacker,
    pub engine: Config,
    pub objects: ObjectsPlace,
    /// How long logs and artifacts are kept.
    pub keep: Keep,
    /// When the disk is short, logs go that were moved or last written so long ago.
    pub stale_after_ms: u64,
}

/// Puts something in front of what it is given.
pub type InFrontOf<T> = Box<dyn FnOnce(T) -> T + Send>;

/// Where a test can stand between an engine and the world. Nobody does by default.
pub struct Seams {
    pub clock: InFrontOf<Arc<dyn Clock>>,
    /// What the engine alone works with; the clock among it is the one from above.
    pub parts: InFrontOf<Parts>,
}

impl Default for Seams {
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
    /// What sandboxes and the control plane wrote, also after their end.
    pub logs: Logs,
    /// Ends what is stuck, at its times and when asked to.
    pub cleaner: Arc<Cleaner>,
    pub(crate) collection: Collection,
    pub(crate) watches: Watches,
    /// Where cleanup and whoever else sees something tells it.
    pub meter: Arc<Meter>,
    pub(crate) figures: FiguresArchive,
    pub(crate) spans: Spans,
    images: ImagesPlace,
}

#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("could not make `{}`", path.display())]
    MakeDirectory { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Census(#[from] HostCensusError),
    #[error(transparent)]
    Clock(#[from] AnchorError),
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(transparent)]
    Provider(#[from] pinfold_linux::OpenError),
    #[error(transparent)]
    Objects(#[from] OpenObjectsError),
    #[error(transparent)]
    Begin(#[from] BeginError),
}

/// Layers are written with the ids that they are mounted with.
const _: () = assert!(LAYER_IDS_FIRST == FIRST_LAYER_ID);

impl Host {
    pub async fn begin(config: HostConfig) -> Result<Self, HostError> {
        Self::begin_with(config, Seams::default()).await
    }

    pub async fn begin_with(config: HostConfig, seams: Seams) -> Result<Self, HostError> {
        let HostConfig { data, nursery, unpacker, engine, objects, keep, stale_after_ms } = config;
        std::fs::create_dir_all(&data)
            .map_err(|source| HostError::MakeDirectory { path: data.clone(), source })?;
        let census = HostCensus::take()?;
        let clock = (seams.clock)(Arc::new(HostClock::anchored(&data, census.boot_id())?));
        let store = Arc::new(SqliteStore::open(&data.join("store"))?);
        let now = clock.clone();
        let provider = LinuxProvider::open(LinuxConfig {
            data: data.join("linux"),
            instance: store.instance(),
            nursery,
            clock: Arc::new(move || now.now()),
        })?;
        let images = ImagesPlace { directory: data.join("images"), unpacker };
        let provider = Arc::new(provider.with_images(images.find_layers()));
        let objects = objects.open(&data)?;
        let figures = FiguresArchive::new(objects.clone());
        let collection = Collection { artifacts: Artifacts::new(objects.clone(), ArtifactLimits::default()) };
        let logs = Logs::new(store.clone(), provider.outputs(), objects);
        let (meter, spans) = (Arc::new(Meter::default()), Spans::default());
        let attended = Attended {
            inner: provider.clone(),
            store: store.clone(),
            collection: collection.clone(),
            clock: clock.clone(),
            meter: meter.clone(),
            spans: spans.clone(),
        };
        let parts = Parts {
            store: store.clone(),
            provider: Arc::new(attended),
            clock: clock.clone(),
            ids: Arc::new(RandomIds),
            census: Arc::new(census),
        };
        let engine = Engine::begin((seams.parts)(parts), engine).await?;
        engine.knows_stale(Arc::new(OldFiles {
            logs: logs.clone(),
            artifacts: collection.artifacts.clone(),
            clock: clock.clone(),
            keep: Keep { logs_ms: stale_after_ms, ..keep },
        }));
        let witness = CleanupCounter { meter: meter.clone(), clock: clock.clone(), spans: spans.clone() };
        let cleaner = engine.keep_clean(store.clone(), Some(Arc::new(witness)));
        let watches = Watches::default();
        Ok(Self {
            engine,
            provider,
            store,
            clock,
            data,
            logs,
            cleaner,
            collection,
            watches,
            meter,
            figures,
            spans,
            images,
        })
    }

    /// What sandboxes can be made from, besides this host itself.
    pub fn images(&self) -> Result<Images, pinfold_images::OpenError> {
        self.images.open()
    }
}

/// Where images are. Nothing is opened before somebody asks.
#[derive(Clone)]
struct ImagesPlace {
    directory: PathBuf,
    unpacker: Unpacker,
}

impl ImagesPlace {
    fn open(&self) -> Result<Images, pinfold_images::OpenError> {
        Images::open(&self.directory, self.unpacker.clone())
    }

    /// How a provider finds what an image is made of.
    fn find_layers(&self) -> Arc<FindLayers> {
        // An ordinary user has but one id, and its layers are its own.
        let first_id = rustix::process::getuid().is_root().then_some(LAYER_IDS_FIRST);
        let place = self.clone();
        Arc::new(move |name| {
            let images = place.open().map_err(io::Error::other)?;
            let found = images.find(name).and_then(|image| images.layers(&image.id));
            let layers = found.map_err(io::Error::other)?;
            Ok(layers.into_iter().map(|path| Layer { path, first_id }).collect())
        })
    }
}
