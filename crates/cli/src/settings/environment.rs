//! Reads settings from environment variables. Every refusal names the key and the variable.

use confique::{Config, Layer};
use pinfold_api::without_type_names;

use super::Settings;
use super::bounds::bounds_of;
use super::load::SettingsError;
use super::provenance::variables;
use super::values::Time;

type SettingsLayer = <Settings as Config>::Layer;

/// Variables in milliseconds that other agent platforms use, each with the setting that it stands for.
const INACTIVITY_MS: &str = "AGENT_INACTIVITY_TIMEOUT_MS";
const MAX_WAIT_MS: &str = "AGENT_MAX_WAIT_TIME_MS";

/// The variables of Pinfold take precedence over those in milliseconds.
pub(super) fn read() -> Result<SettingsLayer, SettingsError> {
    let mut layer = read_own()?;
    if layer.agents.inactivity.is_none() {
        layer.agents.inactivity = in_milliseconds("agents.inactivity", INACTIVITY_MS)?;
    }
    if layer.agents.timeout.is_none() {
        layer.agents.timeout = in_milliseconds("agents.timeout", MAX_WAIT_MS)?;
    }
    Ok(layer)
}

fn in_milliseconds(key: &str, variable: &str) -> Result<Option<Time>, SettingsError> {
    let given = std::env::var(variable).ok().filter(|given| !given.is_empty());
    let ms = given.map(|given| {
        let why = || format!("`{given}` is not a whole number of milliseconds");
        given.parse().map(Time).map_err(|_| refused(key.to_owned(), variable, why()))
    });
    ms.transpose()
}

fn read_own() -> Result<SettingsLayer, SettingsError> {
    let variables = variables();
    for (key, variable) in &variables {
        let path: Vec<_> = key.split('.').collect();
        let given = std::env::var(variable).ok().filter(|given| !given.is_empty());
        if let Some((bounds, given)) = bounds_of(&path).zip(given)
            && let Some(why) = bounds.refuse_text(&given)
        {
            return Err(refused(key.clone(), variable, why));
        }
    }
    SettingsLayer::from_env().map_err(|error| {
        let message = error.to_string();
        let variable =
            message.split_once("environment variable `").and_then(|(_, rest)| rest.split_once('`'));
        let Some((variable, rest)) = variable else { return SettingsError::Missing { source: error } };
        let key = variables.iter().find(|(_, known)| **known == variable).map(|(key, _)| key.clone());
        let own = std::error::Error::source(&error).map(ToString::to_string);
        let why = own.unwrap_or_else(|| rest.trim_start_matches(": ").to_owned());
        refused(key.unwrap_or_default(), variable, in_plain_words(&why, variable))
    })
}

fn refused(field: String, variable: &str, why: String) -> SettingsError {
    SettingsError::Value { field, why, origin: format!("set by `{variable}` in the environment") }
}

fn in_plain_words(why: &str, variable: &str) -> String {
    if why.contains("socket address") {
        let given = std::env::var(variable).unwrap_or_default();
        return format!("`{given}` is not an address; write 127.0.0.1:7463");
    }
    match why.strip_prefix("invalid value for bool: ") {
        Some(given) => format!("expected true or false, not {given}"),
        None => without_type_names(why, "a table"),
    }
}
