//! The deliveries of alert changes, and the loops that send them. Each target has its own loop, so that a slow receiver
//! delays no other.

use std::sync::{Arc, OnceLock};

use pinfold_alerts::{AlertChange, AlertInputs};
use pinfold_engine::Clock;
use pinfold_store::{AlertStore, NewDelivery};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::AlertsConfig;
use super::delivery_loop::delivery_loop;
use super::http_client::{HttpClient, HttpSendError};
use super::notice::notice;

/// Sends notifications about alerts. What is to be sent is in the store.
pub struct Notifier {
    pub(super) store: Arc<dyn AlertStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) config: AlertsConfig,
    /// Wakes the delivery loops.
    pub(super) wake: Notify,
    http_client: OnceLock<HttpClient>,
}

impl Notifier {
    #[must_use]
    pub fn new(store: Arc<dyn AlertStore>, clock: Arc<dyn Clock>, config: AlertsConfig) -> Self {
        Self { store, clock, config, wake: Notify::new(), http_client: OnceLock::new() }
    }

    /// The deliveries of an alert change, one per target. The caller commits them and calls [`Notifier::wake`].
    pub fn deliveries_of(
        &self,
        alert_change: &AlertChange,
        inputs: &AlertInputs,
    ) -> Result<Vec<NewDelivery>, serde_json::Error> {
        if !alert_change.notifies() {
            return Ok(Vec::new());
        }
        let mut notification = notice(alert_change, inputs, &self.config);
        let targets = self.config.route(alert_change).into_iter();
        let deliveries = targets.map(|target| {
            let id = delivery_id();
            notification.delivery_id.clone_from(&id);
            let notice = serde_json::to_string(&notification)?;
            let name = alert_change.alert.name().to_owned();
            Ok(NewDelivery { id, at: alert_change.at, name, target: target.to_string(), notice })
        });
        deliveries.collect()
    }

    /// Says that deliveries were committed, so that they are sent at once.
    pub fn wake(&self) {
        self.wake.notify_waiters();
    }

    /// Runs the delivery loops of all configured targets until aborted.
    pub async fn run(self: Arc<Self>) {
        let mut tasks = JoinSet::new();
        for target in self.config.targets() {
            tasks.spawn(delivery_loop(self.clone(), target));
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Created on first use: it reads the host's root certificates.
    pub(super) fn http_client(&self) -> Result<&HttpClient, HttpSendError> {
        if let Some(client) = self.http_client.get() {
            return Ok(client);
        }
        let client = HttpClient::new()?;
        Ok(self.http_client.get_or_init(|| client))
    }
}

/// A new id of a delivery. A receiver sees the same id again when a delivery is repeated.
#[must_use]
pub fn delivery_id() -> String {
    format!("dlv_{}", uuid::Uuid::now_v7().simple())
}
