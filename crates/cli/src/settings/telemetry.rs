//! Settings of telemetry export, and their conversion to the server's configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use confique::Config;
use pinfold_notify::telemetry::{Collector, TelemetryConfig};

use super::load::{Loaded, SettingsError};
use super::values::{Secret, Time};

/// Export of traces and metrics with OpenTelemetry (OTLP over HTTP, as protobuf). Without an endpoint nothing is sent.
/// `docs/metrics.md` lists what is sent.
#[derive(Debug, Config)]
#[config(layer_attr(derive(Debug, serde::Serialize)), layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct TelemetrySettings {
    /// Address of a collector, such as `http://localhost:4318`; `/v1/traces` and `/v1/metrics` are added to it.
    #[config(env = "PINFOLD_TELEMETRY_ENDPOINT")]
    pub(crate) endpoint: Option<String>,
    /// Send traces of requests and their effects.
    #[config(default = true, env = "PINFOLD_TELEMETRY_TRACES")]
    pub(crate) traces: bool,
    /// Send the metrics of `/metrics`.
    #[config(default = true, env = "PINFOLD_TELEMETRY_METRICS")]
    pub(crate) metrics: bool,
    /// Interval between exports of metrics.
    #[config(default = "60s", env = "PINFOLD_TELEMETRY_INTERVAL")]
    pub(crate) interval: Time,
    /// Service name in traces and metrics.
    #[config(default = "pinfold", env = "PINFOLD_TELEMETRY_SERVICE_NAME")]
    pub(crate) service_name: String,
    /// HTTP headers of every export, such as `{ authorization = "Bearer …" }`; as `NAME=VALUE` separated by commas in
    /// the environment.
    #[config(default = {}, env = "PINFOLD_TELEMETRY_HEADERS", parse_env = pairs)]
    pub(crate) headers: BTreeMap<String, Secret>,
}

const LONGEST_NAME: usize = 128;

#[derive(Debug, thiserror::Error)]
#[error("expected NAME=VALUE pairs separated by commas (value not shown)")]
pub(crate) struct InvalidPairs;

fn pairs(given: &str) -> Result<BTreeMap<String, Secret>, InvalidPairs> {
    let given = given.split(',').filter(|pair| !pair.trim().is_empty());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').ok_or(InvalidPairs)?;
        Ok((name.trim().to_owned(), Secret(value.trim().to_owned())))
    };
    given.map(pair).collect()
}

impl Loaded {
    /// None: telemetry is off.
    pub(super) fn telemetry(&self) -> Result<Option<TelemetryConfig>, SettingsError> {
        let wanted = &self.settings.telemetry;
        let name = &wanted.service_name;
        if name.trim().is_empty() || name.len() > LONGEST_NAME {
            let why = format!("must be 1 to {LONGEST_NAME} bytes long");
            return Err(self.invalid("telemetry.service_name", why));
        }
        let Some(endpoint) = &wanted.endpoint else {
            return match wanted.headers.keys().next() {
                None => Ok(None),
                Some(name) => {
                    let why = "needs `telemetry.endpoint` to be set too";
                    Err(self.invalid(&format!("telemetry.headers.{name}"), why))
                }
            };
        };
        let collector = Collector::new(endpoint);
        let mut collector =
            collector.map_err(|error| self.invalid("telemetry.endpoint", error.to_string()))?;
        for (name, value) in &wanted.headers {
            let at = format!("telemetry.headers.{name}");
            let with = collector.with_header(name, &value.0);
            collector = with.map_err(|error| self.invalid(&at, error.to_string()))?;
        }
        Ok(Some(TelemetryConfig {
            collector,
            traces: wanted.traces,
            metrics: wanted.metrics,
            interval: Duration::from_millis(wanted.interval.0),
            service_name: name.clone(),
        }))
    }
}
