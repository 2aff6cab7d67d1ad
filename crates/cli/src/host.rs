//! An engine in this very process, on the store and the sandboxes of a data directory.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use pinfold_engine::{Clock, Config, Engine, HostCensus, HostClock, Parts, RandomIds};
use pinfold_linux::{LinuxConfig, LinuxProvider, NurseryProgram};
use pinfold_store::{SqliteStore, Store};

use crate::Place;
use crate::image::find_layers;

/// The hidden command under which this program is its own nursery.
pub(crate) const NURSERY: &str = "__nursery";

pub(crate) struct Host {
    pub(crate) engine: Engine,
    pub(crate) provider: Arc<LinuxProvider>,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) clock: Arc<HostClock>,
}

impl Host {
    pub(crate) async fn begin(place: &Place) -> anyhow::Result<Self> {
        let data = &data_directory(place.data_dir.as_ref())?;
        std::fs::create_dir_all(data).with_context(|| format!("could not make `{}`", data.display()))?;
        let census = HostCensus::take()?;
        let clock = Arc::new(HostClock::anchored(data, census.boot_id())?);
        let store = Arc::new(SqliteStore::open(&data.join("store"))?);
        let program = std::env::current_exe().context("could not find this program's own file")?;
        let now = clock.clone();
        let provider = LinuxProvider::open(LinuxConfig {
            data: data.join("linux"),
            instance: store.instance(),
            nursery: NurseryProgram { program, arguments: vec![NURSERY.into()] },
            clock: Arc::new(move || now.now()),
        })?;
        let provider = Arc::new(provider.with_images(find_layers(place)));
        let parts = Parts {
            store: store.clone(),
            provider: provider.clone(),
            clock: clock.clone(),
            ids: Arc::new(RandomIds),
            census: Arc::new(census),
        };
        let engine = Engine::begin(parts, Config::default()).await?;
        Ok(Self { engine, provider, store, clock })
    }
}

/// Where everything is kept when nobody says otherwise.
pub(crate) fn data_directory(asked: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(asked) = asked {
        return std::path::absolute(asked).with_context(|| format!("`{}` is not a path", asked.display()));
    }
    if rustix::process::getuid().is_root() {
        return Ok("/var/lib/pinfold".into());
    }
    let home = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let data = home("XDG_DATA_HOME").or_else(|| Some(home("HOME")?.join(".local/share")));
    Ok(data.context("neither HOME nor XDG_DATA_HOME is set; use --data-dir")?.join("pinfold"))
}
