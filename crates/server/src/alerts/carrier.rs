//! Carries messages to one target. Each is claimed in the store first, and settled there after: what a crash leaves
//! in between is carried again under the same id when the claim is over.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pinfold_store::{Alerts, Delivery, DeliveryClaim, DeliverySettled, DeliveryState, StoreError};
use tokio::time::{sleep, timeout};

use super::Target;
use super::evaluate::delivery_id;
use crate::Service;

/// At one time, to one target.
const AT_ONCE: usize = 8;
/// How long what another server has left may go unnoticed.
const POLL: Duration = Duration::from_secs(1);
/// After the store has failed.
const BREATH: Duration = Duration::from_secs(2);

/// Never ends by itself.
pub(super) async fn carry(service: Arc<Service>, target: Target) {
    loop {
        // Who is told to wake up between the look and the sleep has to notice.
        let woken = service.desk().wake.notified();
        match service.carry_what_is_due(target).await {
            Ok(true) => {}
            Ok(false) => drop(timeout(POLL, woken).await),
            Err(error) => {
                tracing::warn!(%target, error = &error as &dyn std::error::Error, "messages wait");
                sleep(BREATH).await;
            }
        }
    }
}

impl Service {
    /// Says whether there was any.
    async fn carry_what_is_due(&self, target: Target) -> Result<bool, StoreError> {
        let store = &self.host().store;
        let now = self.now();
        if store.next_delivery(&target.to_string()).await?.is_none_or(|due| due > now) {
            return Ok(false);
        }
        let claim_ms = u64::try_from(self.rules().alerts.perseverance.claim.as_millis()).unwrap_or(u64::MAX);
        let token = delivery_id();
        let claim = DeliveryClaim {
            token: token.clone(),
            target: target.to_string(),
            now,
            until: now.after_ms(claim_ms),
            limit: AT_ONCE,
        };
        let claimed = store.claim_deliveries(claim).await?;
        let carried = claimed.iter().map(|delivery| self.carry_one(target, &token, delivery));
        for settled in join_all(carried).await {
            settled?;
        }
        Ok(!claimed.is_empty())
    }

    async fn carry_one(&self, target: Target, token: &str, delivery: &Delivery) -> Result<(), StoreError> {
        let how = self.rules().alerts.perseverance;
        let id = &delivery.new.id;
        let sent = self.send(target, &delivery.new).await;
        let (now, attempts) = (self.now(), delivery.attempts + 1);
        let (state, last) = match sent {
            Ok(answer) => (DeliveryState::Delivered { at: now }, answer),
            Err(error) => {
                let why = error.to_string();
                let state = match how.pause_after(attempts) {
                    Some(pause) => {
                        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                        tracing::warn!(%target, delivery = id, attempts, why, "a message waits");
                        DeliveryState::Waiting { until: now.after_ms(pause_ms) }
                    }
                    None => {
                        tracing::error!(%target, delivery = id, attempts, why, "a message was given up");
                        DeliveryState::GivenUp { at: now }
                    }
                };
                (state, why)
            }
        };
        let settled = DeliverySettled { id: id.clone(), token: token.to_owned(), state, last };
        self.host().store.settle_delivery(settled).await.map(drop)
    }
}
