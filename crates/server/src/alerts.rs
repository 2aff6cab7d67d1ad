//! Alert evaluation and delivery. A loop evaluates all alerts every few seconds and commits new states together with
//! the notifications to send. Each receiver has its own delivery loop, so that a slow receiver delays no other.

mod cleanup_history;
mod config;
mod delivery_loop;
mod email;
mod evaluate;
pub(crate) mod http_client;
mod measure;
mod notice;
mod recent_history;
mod send;
mod slack;
mod targets;
mod webhook;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pinfold_alerts::AlertInputs;
use pinfold_lifecycle::Timestamp;
use tokio::sync::Notify;
use tokio::task::JoinSet;

pub use config::{AlertsConfig, DeliveryRetry, Receivers, Redacted, Routes, Smtp, SmtpSecurity, Webhook};
pub use targets::{Channel, Target};

pub(crate) use notice::{event, impact, notice, runbook_of, severity};

use crate::Service;
use http_client::HttpClient;
use recent_history::RecentHistory;

/// Alert state of this process. Everything durable is in the store.
#[derive(Default)]
pub(crate) struct AlertRuntime {
    recent: tokio::sync::Mutex<RecentHistory>,
    snapshot: Mutex<Option<AlertSnapshot>>,
    /// Wakes the delivery loops.
    wake: Notify,
    http_client: OnceLock<HttpClient>,
}

/// The values of the last evaluation.
#[derive(Debug, Clone)]
pub(crate) struct AlertSnapshot {
    pub(crate) at: Timestamp,
    pub(crate) inputs: AlertInputs,
}

impl AlertRuntime {
    fn remember(&self, snapshot: AlertSnapshot) {
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
    }

    pub(crate) fn last_snapshot(&self) -> Option<AlertSnapshot> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs the evaluation loop and all delivery loops until aborted.
pub(crate) async fn run(service: Arc<Service>) {
    let mut tasks = JoinSet::new();
    for target in service.config().alerts.targets() {
        tasks.spawn(delivery_loop::delivery_loop(service.clone(), target));
    }
    tasks.spawn(evaluate::evaluate_loop(service));
    while tasks.join_next().await.is_some() {}
}
