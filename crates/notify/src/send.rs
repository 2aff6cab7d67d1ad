//! Sends one notification over one channel, with a time limit.

use pinfold_api::AlertNotice;
use pinfold_store::NewDelivery;

use super::http_client::HttpSendError;
use super::{Channel, Notifier, Target, email, slack, webhook};

/// Why a delivery failed. Never contains addresses or secrets.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    #[error("no receiver is configured for this target any more")]
    NoReceiver,
    #[error("no answer within {seconds} s")]
    TimedOut { seconds: u64 },
    #[error("the stored message cannot be read: {0}")]
    Unreadable(serde_json::Error),
    #[error(transparent)]
    Http(#[from] HttpSendError),
    #[error(transparent)]
    Email(#[from] email::EmailError),
}

impl Notifier {
    /// Sends a notification and returns the receiver's answer.
    pub async fn send(&self, target: Target, delivery: &NewDelivery) -> Result<String, DeliveryError> {
        let within = self.config.retry.timeout;
        let sent = tokio::time::timeout(within, self.send_now(target, delivery)).await;
        sent.unwrap_or(Err(DeliveryError::TimedOut { seconds: within.as_secs() }))
    }

    async fn send_now(&self, target: Target, delivery: &NewDelivery) -> Result<String, DeliveryError> {
        let config = &self.config;
        let receivers = config.receivers_at(target.level).ok_or(DeliveryError::NoReceiver)?;
        let notice: AlertNotice =
            serde_json::from_str(&delivery.notice).map_err(DeliveryError::Unreadable)?;
        match target.channel {
            Channel::Webhook => {
                let to = receivers.webhook.as_ref().ok_or(DeliveryError::NoReceiver)?;
                let seconds = self.clock.now().0.div_euclid(1_000);
                let request = webhook::request(to, &delivery.id, &delivery.notice, seconds);
                Ok(self.http_client()?.post(request?).await?)
            }
            Channel::Slack => {
                let to = receivers.slack.as_ref().ok_or(DeliveryError::NoReceiver)?;
                let request = slack::request(to, &notice);
                Ok(self.http_client()?.post(request?).await?)
            }
            Channel::Email => {
                let smtp = config.smtp.as_ref().ok_or(DeliveryError::NoReceiver)?;
                let to = &receivers.email;
                Ok(email::send(smtp, to, &delivery.id, &notice, config.retry.timeout).await?)
            }
        }
    }
}
