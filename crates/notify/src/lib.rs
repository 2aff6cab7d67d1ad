//! What Pinfold tells the outside: alert notifications by webhook, Slack and e-mail, and traces and metrics by OTLP.
//!
//! - [`Notifier`] turns a change of an alert into deliveries, one per target. The service commits them with the new
//!   alert states; a delivery loop per target claims them in the store, sends them and retries. The rules of alerts are
//!   in `pinfold-alerts`, their evaluation in `pinfold-service`.
//! - [`telemetry`] exports spans and metrics to a collector.
//!
//! ```text
//!  evaluation ──▶ Notifier::deliveries_of ──▶ store (outbox) ──▶ delivery loop ──▶ webhook, Slack, e-mail
//!  engine, HTTP ──▶ telemetry::Spans ──▶ bounded queue ─┐
//!  metrics ─────────────────────────────────────────────┴──▶ OTLP collector
//! ```

mod config;
mod delivery_loop;
mod email;
mod http_client;
mod notice;
mod notifier;
mod send;
mod slack;
mod targets;
pub mod telemetry;
mod webhook;

pub use config::{AlertsConfig, DeliveryRetry, Receivers, Redacted, Routes, Smtp, SmtpSecurity, Webhook};
pub use email::EmailError;
pub use http_client::HttpSendError;
pub use notice::{event, impact, runbook_of, severity};
pub use notifier::{Notifier, delivery_id};
pub use send::DeliveryError;
pub use targets::{Channel, Target};
