//! Loads settings: defaults, then the file, then the environment. Invalid values are refused before anything starts,
//! with their location and the allowed values.

use std::io;
use std::path::{Path, PathBuf};

use confique::{Config, Layer};

use super::machine::Machine;
use super::provenance::Provenance;
use super::{FILE, Settings};

#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("could not read the configuration file `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {why}; see `pinfold config template` for all settings", path.display())]
    Syntax { path: PathBuf, line: usize, why: String },
    #[error("{}", with_causes(source))]
    Environment { source: confique::Error },
    #[error("{field}: {why} ({origin})")]
    Value { field: String, why: String, origin: String },
}

/// Joins the causes: the outermost error names the variable, the innermost says what is wrong.
fn with_causes(error: &confique::Error) -> String {
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    message
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
    let environment = SettingsLayer::from_env().map_err(|source| SettingsError::Environment { source })?;
    let (file, written) = match (named, data.join(FILE)) {
        (Some(named), _) => (Some(named.to_owned()), read(named)?),
        (None, own) if own.exists() => (Some(own.clone()), read(&own)?),
        (None, _) => (None, SettingsLayer::empty()),
    };
    let machine = Machine::this();
    let provenance = Provenance::of(machine, &written, &environment, file.clone());
    let all = environment.with_fallback(written).with_fallback(SettingsLayer::default_values());
    let settings = Settings::from_layer(all).map_err(|source| SettingsError::Environment { source })?;
    let loaded = Loaded { settings, file, provenance, machine };
    loaded.check()?;
    Ok(loaded)
}

fn read(path: &Path) -> Result<SettingsLayer, SettingsError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| SettingsError::Read { path: path.to_owned(), source })?;
    toml::from_str(&text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        SettingsError::Syntax { path: path.to_owned(), line, why: error.message().replace('\n', " ") }
    })
}
