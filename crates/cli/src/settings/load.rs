//! Loads settings: defaults, then the file, then the environment. Invalid values are refused before anything starts,
//! with their location and the allowed values.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use confique::{Config, Layer};

use super::environment;
use super::file::{self, SettingsFile};
use super::machine::Machine;
use super::provenance::Provenance;
use super::{FILE, Settings};

#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("could not read the configuration file `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {why}; see `pinfold config template` for all settings", path.display())]
    Syntax { path: PathBuf, line: usize, why: String },
    #[error("{source}")]
    Missing { source: confique::Error },
    #[error("{field}: {why} ({origin})")]
    Value { field: String, why: String, origin: String },
}

/// Validated settings and where they come from.
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    /// None: there is no file.
    pub(crate) file: Option<PathBuf>,
    pub(crate) provenance: Provenance,
    pub(super) machine: Machine,
}

type SettingsLayer = <Settings as Config>::Layer;

/// Reads the named file, which must exist, or the data directory's file if there is one.
pub(crate) fn load(data: &Path, named: Option<&Path>) -> Result<Loaded, SettingsError> {
    let environment = environment::read()?;
    let (file, SettingsFile { layer: written, lines }) = match (named, data.join(FILE)) {
        (Some(named), _) => (Some(named.to_owned()), file::read(named)?),
        (None, own) if own.exists() => (Some(own.clone()), file::read(&own)?),
        (None, _) => (None, SettingsFile { layer: SettingsLayer::empty(), lines: BTreeMap::new() }),
    };
    let machine = Machine::this();
    let provenance = Provenance::of(machine, &written, &environment, file.clone().map(|file| (file, lines)));
    let all = environment.with_fallback(written).with_fallback(SettingsLayer::default_values());
    let settings = Settings::from_layer(all).map_err(|source| SettingsError::Missing { source })?;
    let loaded = Loaded { settings, file, provenance, machine };
    loaded.check()?;
    Ok(loaded)
}
