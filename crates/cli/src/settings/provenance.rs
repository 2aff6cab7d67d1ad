//! Where each value comes from: what is built in, the size of this machine, the file, or the environment.

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
    /// By its size.
    Machine,
    File,
    Environment,
}

/// One value that holds.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) from: Origin,
    /// By which it can be set from the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) variable: Option<&'static str>,
}

pub(crate) struct Provenance {
    file: Option<PathBuf>,
    machine: BTreeMap<String, Value>,
    written: BTreeMap<String, Value>,
    environment: BTreeMap<String, Value>,
}

impl Provenance {
    pub(super) fn of(
        machine: Machine,
        written: &SettingsLayer,
        environment: &SettingsLayer,
        file: Option<PathBuf>,
    ) -> Self {
        Self { file, machine: machine.decided(), written: flat(written), environment: flat(environment) }
    }

    /// Everything that holds, by key.
    pub(crate) fn shown(&self) -> Vec<Shown> {
        let variables = variables();
        let mut all: BTreeMap<String, (Value, Origin)> =
            built_in().into_iter().map(|(key, value)| (key, (value, Origin::Default))).collect();
        for (own, origin) in [
            (&self.machine, Origin::Machine),
            (&self.written, Origin::File),
            (&self.environment, Origin::Environment),
        ] {
            all.extend(own.iter().map(|(key, value)| (as_known(key), (value.clone(), origin))));
        }
        let shown = all.into_iter().map(|(key, (value, from))| {
            let variable = variable_of(&key, &variables);
            Shown { key, value, from, variable }
        });
        shown.collect()
    }

    /// Whom to ask about a value that is wrong.
    pub(super) fn told(&self, key: &str) -> String {
        if self.environment.contains_key(key) {
            let variable = variable_of(key, &variables()).unwrap_or_default();
            return format!("set by `{variable}` in the environment");
        }
        match &self.file {
            Some(file) if self.written.keys().any(|own| own == key) => format!("set in `{}`", file.display()),
            Some(_) | None => "built in; another value does not go with it".into(),
        }
    }
}

/// Types of agents have one spelling.
fn as_known(key: &str) -> String {
    let respelled = key.strip_prefix("profiles.").and_then(|rest| {
        let (name, field) = rest.split_once('.')?;
        Some(format!("profiles.{}.{field}", Profiles::default().named(name).ok()?.0))
    });
    respelled.unwrap_or_else(|| key.to_owned())
}

pub(super) fn built_in() -> BTreeMap<String, Value> {
    let mut all = flat(&SettingsLayer::default_values());
    for (name, profile) in PROFILES {
        let own = serde_json::to_value(ProfileSettings::of(profile)).unwrap_or_default();
        flatten(&format!("profiles.{name}"), &own, &mut all);
    }
    all
}

fn flat(layer: &SettingsLayer) -> BTreeMap<String, Value> {
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

/// The variable of the environment for each key that has one.
pub(super) fn variables() -> BTreeMap<String, &'static str> {
    let mut all = BTreeMap::new();
    collect(&Settings::META, "", &mut all);
    all
}

/// One variable may set a whole table.
fn variable_of(key: &str, variables: &BTreeMap<String, &'static str>) -> Option<&'static str> {
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
