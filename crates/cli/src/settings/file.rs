//! Reads the configuration file. Every refusal names the key and its line.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use confique::Config;
use pinfold_api::without_type_names;
use toml::de::{DeTable, DeValue};

use super::Settings;
use super::bounds::bounds_of;
use super::load::SettingsError;

type SettingsLayer = <Settings as Config>::Layer;

/// The values of a file, and the line of each key.
pub(super) struct SettingsFile {
    pub(super) layer: SettingsLayer,
    pub(super) lines: BTreeMap<String, usize>,
}

pub(super) fn read(path: &Path) -> Result<SettingsFile, SettingsError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| SettingsError::Read { path: path.to_owned(), source })?;
    let document = Document { path, text: &text };
    let mut keys = Vec::new();
    let root = DeTable::parse(&text).map_err(|error| document.syntax(&error))?;
    document.collect(root.get_ref(), &mut Vec::new(), &mut keys)?;
    let layer = toml::from_str(&text).map_err(|error| document.refused(&error, &keys))?;
    let lines = keys.into_iter().map(|key| (key.name, key.line)).collect();
    Ok(SettingsFile { layer, lines })
}

struct Document<'a> {
    path: &'a Path,
    text: &'a str,
}

/// A key with the place of its value.
struct Key {
    name: String,
    line: usize,
    value: Range<usize>,
}

impl Document<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.get(..at).unwrap_or_default().matches('\n').count() + 1
    }

    fn syntax(&self, error: &toml::de::Error) -> SettingsError {
        let line = self.line(error.span().map_or(0, |span| span.start));
        SettingsError::Syntax { path: self.path.to_owned(), line, why: error.message().replace('\n', " ") }
    }

    fn value(&self, field: String, line: usize, why: String) -> SettingsError {
        let origin = format!("set in `{}:{line}`", self.path.display());
        SettingsError::Value { field, why, origin }
    }

    /// Collects the keys of a table and checks the bounds of their values.
    fn collect<'i>(
        &self,
        table: &'i DeTable<'_>,
        path: &mut Vec<&'i str>,
        keys: &mut Vec<Key>,
    ) -> Result<(), SettingsError> {
        for (name, value) in table {
            path.push(name.get_ref());
            let (dotted, line) = (path.join("."), self.line(name.span().start));
            keys.push(Key { name: dotted.clone(), line, value: value.span() });
            match (bounds_of(path), value.get_ref()) {
                (None, DeValue::Table(inner)) => self.collect(inner, path, keys)?,
                (None, _) => {}
                (Some(bounds), given) => {
                    if let Some(why) = bounds.refuse_value(given) {
                        return Err(self.value(dotted, line, why));
                    }
                }
            }
            path.pop();
        }
        Ok(())
    }

    /// Names the key whose value was refused. An unknown key is named by the message itself.
    fn refused(&self, error: &toml::de::Error, keys: &[Key]) -> SettingsError {
        let at = error.span().unwrap_or_default();
        let holds = |key: &&Key| key.value.start <= at.start && at.end <= key.value.end;
        let key = keys.iter().filter(holds).min_by_key(|key| key.value.len());
        match key {
            Some(key) if !error.message().starts_with("unknown field") => {
                let why = without_type_names(error.message(), "a table").replace('\n', " ");
                self.value(key.name.clone(), self.line(at.start), why)
            }
            Some(_) | None => self.syntax(error),
        }
    }
}
