//! Pinfold as a service. [`Host`] is an engine on a data directory; [`Service`] is the one translation between what
//! the lifecycle knows and what the API says, with or without a server; [`http`] puts it on the network.

pub mod alerts;
mod attended;
mod cleanup_counter;
mod collecting;
mod host;
mod housekeeping;
pub mod http;
mod measuring;
mod objects;
mod rules;
pub mod service;
mod stale;
mod telemetry;
mod watches;

pub use host::{Host, HostConfig, HostError, InFrontOf, Seams};
pub use objects::{BucketPlace, ObjectsPlace, OpenObjectsError};
pub use rules::{FlagRules, KeepKeys, Rules};
pub use service::{Failure, Service, receipt};
pub use telemetry::{BadCollector, BadHeader, Collector, TelemetryConfig};
