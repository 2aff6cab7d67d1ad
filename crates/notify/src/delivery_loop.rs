//! Delivers notifications to one target. Each is claimed in the store first and settled there afterwards: a delivery
//! that a crash interrupts is sent again under the same id when its claim expires.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pinfold_store::{Delivery, DeliveryClaim, DeliveryResult, DeliveryState, StoreError};
use tokio::time::{sleep, timeout};

use super::notifier::delivery_id;
use super::{Notifier, Target};

/// Concurrent deliveries per target.
const CONCURRENT: usize = 8;
/// Poll interval, for deliveries that another server has queued.
const POLL: Duration = Duration::from_secs(1);
/// Pause after a store error.
const STORE_RETRY: Duration = Duration::from_secs(2);

/// Runs until aborted.
pub(super) async fn delivery_loop(notifier: Arc<Notifier>, target: Target) {
    loop {
        // Registered before the check, so that a wake-up in between is not lost.
        let woken = notifier.wake.notified();
        match notifier.deliver_due(target).await {
            Ok(true) => {}
            Ok(false) => drop(timeout(POLL, woken).await),
            Err(error) => {
                tracing::warn!(%target, error = &error as &dyn std::error::Error, "could not read deliveries, retrying in 2 s");
                sleep(STORE_RETRY).await;
            }
        }
    }
}

impl Notifier {
    /// Sends due deliveries. Returns whether there were any.
    async fn deliver_due(&self, target: Target) -> Result<bool, StoreError> {
        let now = self.clock.now();
        if self.store.next_delivery(&target.to_string()).await?.is_none_or(|due| due > now) {
            return Ok(false);
        }
        let claim_ms = u64::try_from(self.config.retry.claim.as_millis()).unwrap_or(u64::MAX);
        let token = delivery_id();
        let claim = DeliveryClaim {
            claim_id: token.clone(),
            target: target.to_string(),
            now,
            until: now.after_ms(claim_ms),
            limit: CONCURRENT,
        };
        let claimed = self.store.claim_deliveries(claim).await?;
        let sending = claimed.iter().map(|delivery| self.deliver_one(target, &token, delivery));
        for settled in join_all(sending).await {
            settled?;
        }
        Ok(!claimed.is_empty())
    }

    async fn deliver_one(&self, target: Target, token: &str, delivery: &Delivery) -> Result<(), StoreError> {
        let retry = self.config.retry;
        let id = &delivery.new.id;
        let sent = self.send(target, &delivery.new).await;
        let (now, attempts) = (self.clock.now(), delivery.attempts + 1);
        let (state, last) = match sent {
            Ok(answer) => (DeliveryState::Delivered { at: now }, answer),
            Err(error) => {
                let why = error.to_string();
                let state = match retry.pause_after(attempts) {
                    Some(pause) => {
                        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                        tracing::warn!(%target, delivery = id, attempts, why, "delivery failed, retrying later");
                        DeliveryState::Waiting { until: now.after_ms(pause_ms) }
                    }
                    None => {
                        tracing::error!(%target, delivery = id, attempts, why, "delivery failed for the last time, giving up");
                        DeliveryState::GivenUp { at: now }
                    }
                };
                (state, why)
            }
        };
        let settled = DeliveryResult { id: id.clone(), claim_id: token.to_owned(), state, result: last };
        self.store.finish_delivery(settled).await.map(drop)
    }
}
