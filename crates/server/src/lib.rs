//! Pinfold as a service. [`Host`] is an engine on a data directory; [`Service`] is the one translation between what
//! the lifecycle knows and what the API says, with or without a server; [`http`] puts it on the network.

mod host;
pub mod http;
mod rules;
pub mod service;

pub use host::{Host, HostConfig, HostError};
pub use rules::{BucketPlace, ObjectsPlace, OpenObjectsError, Rules};
pub use service::{Failure, Service};
