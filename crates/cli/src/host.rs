//! The engine of a command that works without a server.

use std::path::{Path, PathBuf};

use anyhow::Context;
use pinfold_engine::Config;
use pinfold_host::Programs;
use pinfold_images::{UNPACK, Unpacker};
use pinfold_linux::SpawnerProgram;
use pinfold_logs::RetentionPeriods;
use pinfold_service::{HostConfig, ObjectStoreConfig, Service, ServiceConfig};

pub(crate) use pinfold_service::Host;

use crate::GlobalOptions;
use crate::data_directory::data_directory;
use crate::settings::{self, Loaded};

/// The hidden command that runs this program as the spawner of keepers.
pub(crate) const SPAWNER: &str = "__spawner";

pub(crate) async fn start_host(global: &GlobalOptions) -> anyhow::Result<Host> {
    let (data, loaded) = load_settings(global)?;
    start_host_on(&data, &loaded).await
}

/// Starts the service in this process.
pub(crate) async fn start_service(global: &GlobalOptions) -> anyhow::Result<Service> {
    let (data, loaded) = load_settings(global)?;
    Ok(Service::with(start_host_on(&data, &loaded).await?, loaded.service_config()?))
}

/// Profiles and policy of this data directory.
pub(crate) fn service_config(global: &GlobalOptions) -> anyhow::Result<ServiceConfig> {
    Ok(load_settings(global)?.1.service_config()?)
}

fn load_settings(global: &GlobalOptions) -> anyhow::Result<(PathBuf, Loaded)> {
    let data = data_directory(global.data_dir.as_ref())?;
    let loaded = settings::load(&data, None)?;
    Ok((data, loaded))
}

async fn start_host_on(data: &Path, loaded: &Loaded) -> anyhow::Result<Host> {
    let config = config(data, loaded.engine_without_pool(), loaded.objects());
    let config = HostConfig { keep: loaded.keep(), stale_after_ms: loaded.stale_after_ms(), ..config };
    Ok(pinfold_host::start_host(config, programs()?).await?)
}

pub(crate) fn config(data: &Path, engine: Config, objects: ObjectStoreConfig) -> HostConfig {
    let keep = RetentionPeriods::default();
    let stale_after_ms = keep.logs_ms;
    HostConfig { data: data.to_owned(), engine, objects, keep, stale_after_ms }
}

/// This program is its own spawner and unpacker.
pub(crate) fn programs() -> anyhow::Result<Programs> {
    let spawner = SpawnerProgram { program: current_program()?, arguments: vec![SPAWNER.into()] };
    Ok(Programs { spawner, unpacker: unpacker()? })
}

/// Archives are unpacked by a confined process of this program.
pub(crate) fn unpacker() -> anyhow::Result<Unpacker> {
    Ok(Unpacker { program: current_program()?, arguments: vec![UNPACK.into()] })
}

fn current_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("could not find the path of this program")
}
