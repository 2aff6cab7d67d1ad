//! The origin of each value: default, machine size, file or environment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use confique::meta::{FieldKind, Meta};
use confique::{Config, Layer};
use pinfold_lifecycle::profile::{PROFILES, Profiles};
use serde::Serialize;
use serde_json::Value;

use super::machine::Machine;
use super::{ProfileSettings, Settings};

type SettingsLayer = <Settings as Config>::Layer;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    Default,
    /// Derived from the machine's size.
    Machine,
    File,
    Environment,
}

/// One effective value.
#[derive(Debug, Serialize)]
pub(crate) struct ShownSetting {
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) from: Origin,
    /// Environment variable that sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) variable: Option<&'static str>,
}

pub(crate) struct Provenance {
    /// The file, and the line of each key in it.
    file: Option<(PathBuf, BTreeMap<String, usize>)>,
    machine: BTreeMap<String, Value>,
    written: BTreeMap<String, Value>,
    environment: BTreeMap<String, Value>,
}

impl Provenance {
    pub(super) fn of(
        machine: Machine,
        written: &SettingsLayer,
        environment: &SettingsLayer,
        file: Option<(PathBuf, BTreeMap<String, usize>)>,
    ) -> Self {
        Self {
            file,
            machine: machine.decided(),
            written: flatten_layer(written),
            environment: flatten_layer(environment),
        }
    }

    /// All effective values, sorted by key.
    pub(crate) fn shown(&self) -> Vec<ShownSetting> {
        let variables = variables();
        let mut all: BTreeMap<String, (Value, Origin)> =
            defaults().into_iter().map(|(key, value)| (key, (value, Origin::Default))).collect();
        for (values, origin) in [
            (&self.machine, Origin::Machine),
            (&self.written, Origin::File),
            (&self.environment, Origin::Environment),
        ] {
            all.extend(values.iter().map(|(key, value)| (canonical_key(key), (value.clone(), origin))));
        }
        let shown = all.into_iter().map(|(key, (value, from))| {
            let variable = variable_for(&key, &variables);
            ShownSetting { key, value, from, variable }
        });
        shown.collect()
    }

    /// Where an invalid value comes from, for an error message.
    pub(super) fn origin_text(&self, key: &str) -> String {
        if self.environment.contains_key(key) {
            let variable = variable_for(key, &variables()).unwrap_or_default();
            return format!("set by `{variable}` in the environment");
        }
        match self.file.as_ref().and_then(|(file, lines)| Some((file, lines.get(key)?))) {
            Some((file, line)) => format!("set in `{}:{line}`", file.display()),
            None => "default; it conflicts with another setting".into(),
        }
    }
}

/// Uses the canonical spelling of agent types.
fn canonical_key(key: &str) -> String {
    let respelled = key.strip_prefix("profiles.").and_then(|rest| {
        let (name, field) = rest.split_once('.')?;
        Some(format!("profiles.{}.{field}", Profiles::default().get(name).ok()?.0))
    });
    respelled.unwrap_or_else(|| key.to_owned())
}

pub(super) fn defaults() -> BTreeMap<String, Value> {
    let mut all = flatten_layer(&SettingsLayer::default_values());
    for (name, profile) in PROFILES {
        let own = serde_json::to_value(ProfileSettings::of(profile)).unwrap_or_default();
        flatten(&format!("profiles.{name}"), &own, &mut all);
    }
    all
}

fn flatten_layer(layer: &SettingsLayer) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    flatten("", &serde_json::to_value(layer).unwrap_or_default(), &mut all);
    all
}

fn flatten(prefix: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            let dot = if prefix.is_empty() { "" } else { "." };
            fields.iter().for_each(|(name, value)| flatten(&format!("{prefix}{dot}{name}"), value, into));
        }
        other => {
            into.insert(prefix.to_owned(), other.clone());
        }
    }
}

/// Environment variables by key.
pub(super) fn variables() -> BTreeMap<String, &'static str> {
    let mut all = BTreeMap::new();
    collect(&Settings::META, "", &mut all);
    all
}

/// The variable of a key. One variable may set a whole table.
fn variable_for(key: &str, variables: &BTreeMap<String, &'static str>) -> Option<&'static str> {
    let is_in =
        |table: &str| key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    variables.iter().find(|(known, _)| is_in(known)).map(|(_, variable)| *variable)
}

fn collect(meta: &Meta, prefix: &str, into: &mut BTreeMap<String, &'static str>) {
    for field in meta.fields {
        let key = format!("{prefix}{}", field.name);
        match field.kind {
            FieldKind::Leaf { env: Some(variable), .. } => drop(into.insert(key, variable)),
            FieldKind::Leaf { env: None, .. } => {}
            FieldKind::Nested { meta } => collect(meta, &format!("{key}."), into),
        }
    }
}
