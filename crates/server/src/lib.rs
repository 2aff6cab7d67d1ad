//! The Pinfold server: every operation on an engine, and the HTTP API, alerts and telemetry on top of it.
//!
//! - [`Host`] is an engine with its store, provider, logs and images on one data directory.
//! - [`Service`] implements every operation of the API, with or without HTTP. Commands without a server call it in
//!   their own process.
//! - [`http`] serves a [`Service`] on the network.
//! - [`alerts`] evaluates alerts and delivers notifications; `telemetry` exports traces and metrics by OTLP.
//!
//! ```text
//!  client ──HTTP──▶ http ──▶ Service ──▶ Host ──▶ Engine ──▶ Provider ──▶ instances
//!                              ▲  ▲        │         │
//!  pinfold (no server) ────────┘  │        │         └─────▶ Store ◀── other servers
//!                                 │        └───────────────▶ Logs, artifacts, images
//!  loops of a server: metrics, log retention, alerts, telemetry ──▶ receivers, collector
//! ```

pub mod alerts;
mod cleanup_recorder;
mod collecting;
mod config;
mod directory_watch;
mod engine_observer;
mod host;
pub mod http;
mod log_retention;
mod metrics_loop;
mod object_store;
pub mod service;
mod stale_files;
mod telemetry;

pub use config::{FlagThresholds, IdempotencyKeyRetention, ServiceConfig};
pub use host::{Host, HostConfig, HostError, TestHooks, Wrap};
pub use object_store::{BucketConfig, ObjectStoreConfig, OpenObjectStoreError};
pub use service::{Failure, Service, receipt};
pub use telemetry::{Collector, CollectorAddressError, CollectorHeaderError, TelemetryConfig};
