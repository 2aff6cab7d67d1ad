//! Pinfold on this host: opens SQLite, the Linux provider and the image store in a data directory, and starts a
//! [`Host`] on them. This is the one place that chooses them: the service and its HTTP front see traits.
//!
//! ```text
//!  DATA/store   ──▶ SqliteStore ───┐
//!  DATA/linux   ──▶ LinuxProvider ─┼──▶ pinfold_service::Host
//!  DATA/images  ──▶ ImageStoreLocation ─┘
//! ```

mod data_directory;

use std::io;
use std::sync::Arc;

use pinfold_engine::{AnchorError, Clock, HostClock, HostLiveness, HostLivenessError, Parts};
use pinfold_images::{LAYER_IDS_FIRST, Unpacker};
use pinfold_linux::{FIRST_LAYER_ID, FindLayers, LinuxConfig, LinuxProvider, RootLayer, SpawnerProgram};
use pinfold_service::{Host, HostConfig, HostError, HostParts, ImageStoreLocation, Wrap};
use pinfold_store::{OpenError, Store};
use pinfold_store_sqlite::{LockTimeout, SqliteStore, StorePaths};

pub use data_directory::DataDirectoryError;

/// The helper programs of a host.
#[derive(Clone)]
pub struct Programs {
    /// Starts keepers.
    pub spawner: SpawnerProgram,
    /// Unpacks archives.
    pub unpacker: Unpacker,
}

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

#[derive(Debug, thiserror::Error)]
pub enum StartHostError {
    #[error(transparent)]
    DataDirectory(#[from] DataDirectoryError),
    #[error(transparent)]
    Liveness(#[from] HostLivenessError),
    #[error(transparent)]
    Clock(#[from] AnchorError),
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(transparent)]
    Provider(#[from] pinfold_linux::OpenError),
    #[error(transparent)]
    Host(#[from] HostError),
}

/// Images are unpacked with the ids that the provider mounts them with.
const _: () = assert!(LAYER_IDS_FIRST == FIRST_LAYER_ID);

/// Starts a host on the data directory of the configuration.
pub async fn start_host(config: HostConfig, programs: Programs) -> Result<Host, StartHostError> {
    start_host_with(config, programs, TestHooks::default()).await
}

/// Like [`start_host`], with decorators around the engine.
pub async fn start_host_with(
    config: HostConfig,
    programs: Programs,
    hooks: TestHooks,
) -> Result<Host, StartHostError> {
    let data = &config.data;
    data_directory::prepare(data)?;
    let liveness = HostLiveness::take()?;
    let clock = (hooks.clock)(Arc::new(HostClock::anchored(data, liveness.boot_id())?));
    let store =
        Arc::new(SqliteStore::open_with(&StorePaths::of_data_directory(data), LockTimeout::default())?);
    let now = clock.clone();
    let images = ImageStoreLocation { directory: data.join("images"), unpacker: programs.unpacker };
    let linux = LinuxProvider::open(LinuxConfig {
        data: data.join("linux"),
        store_id: store.store_id(),
        spawner: programs.spawner,
        clock: Arc::new(move || now.now()),
    })?;
    let linux = linux.with_images(find_layers(images.clone()));
    let liveness = Arc::new(liveness);
    let parts = HostParts { store, provider: Arc::new(linux), clock, liveness, images };
    Ok(Host::begin(parts, config, hooks.parts).await?)
}

/// The callback by which the provider finds an image's layers.
fn find_layers(images: ImageStoreLocation) -> Arc<FindLayers> {
    // Without root there is one id only, and the layers belong to it.
    let first_id = rustix::process::getuid().is_root().then_some(LAYER_IDS_FIRST);
    Arc::new(move |name| {
        let images = images.open().map_err(io::Error::other)?;
        let found = images.find(name).and_then(|image| images.layers(&image.id));
        let layers = found.map_err(io::Error::other)?;
        Ok(layers.into_iter().map(|path| RootLayer { path, first_id }).collect())
    })
}
