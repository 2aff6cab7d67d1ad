//! The engine of a command that works without a server, and where everything is kept.

use std::path::{Path, PathBuf};

use anyhow::Context;
use pinfold_engine::Config;
use pinfold_images::{UNPACK, Unpacker};
use pinfold_linux::NurseryProgram;
use pinfold_logs::Keep;
use pinfold_server::{HostConfig, ObjectsPlace, Rules, Service};

pub(crate) use pinfold_server::Host;

use crate::Place;
use crate::settings::{self, Loaded};

/// The hidden command under which this program is its own nursery.
pub(crate) const NURSERY: &str = "__nursery";

pub(crate) async fn begin(place: &Place) -> anyhow::Result<Host> {
    let (data, decided) = decided(place)?;
    begin_on(&data, &decided).await
}

/// As a server would do it, in this process.
pub(crate) async fn begin_service(place: &Place) -> anyhow::Result<Service> {
    let (data, decided) = decided(place)?;
    Ok(Service::with(begin_on(&data, &decided).await?, decided.rules()?))
}

/// What was decided for all sandboxes of this place.
pub(crate) fn rules(place: &Place) -> anyhow::Result<Rules> {
    Ok(decided(place)?.1.rules()?)
}

fn decided(place: &Place) -> anyhow::Result<(PathBuf, Loaded)> {
    let data = data_directory(place.data_dir.as_ref())?;
    let decided = settings::load(&data, None)?;
    Ok((data, decided))
}

async fn begin_on(data: &Path, decided: &Loaded) -> anyhow::Result<Host> {
    let config = config(data, decided.engine_of_command(), decided.objects())?;
    Ok(Host::begin(HostConfig { keep: decided.keep(), stale_after_ms: decided.stale_after_ms(), ..config })
        .await?)
}

pub(crate) fn config(data: &Path, engine: Config, objects: ObjectsPlace) -> anyhow::Result<HostConfig> {
    let nursery = NurseryProgram { program: own_program()?, arguments: vec![NURSERY.into()] };
    let keep = Keep::default();
    let stale_after_ms = keep.logs_ms;
    Ok(HostConfig {
        data: data.to_owned(),
        nursery,
        unpacker: unpacker()?,
        engine,
        objects,
        keep,
        stale_after_ms,
    })
}

/// Archives are unpacked by this very program, confined.
pub(crate) fn unpacker() -> anyhow::Result<Unpacker> {
    Ok(Unpacker { program: own_program()?, arguments: vec![UNPACK.into()] })
}

fn own_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("could not find this program's own file")
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
