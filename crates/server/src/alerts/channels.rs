//! One message by one way, within its time.

use pinfold_api::AlertNotice;
use pinfold_store::NewDelivery;

use super::post::PostError;
use super::{Channel, Target, email, slack, webhook};
use crate::Service;

/// Why a message did not arrive. Addresses and secrets are not repeated here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error("nobody is configured there any more")]
    NobodyThere,
    #[error("there was no answer within {seconds} s")]
    TooLate { seconds: u64 },
    #[error("the stored message cannot be read: {0}")]
    Unreadable(serde_json::Error),
    #[error(transparent)]
    Post(#[from] PostError),
    #[error(transparent)]
    Email(#[from] email::EmailError),
}

impl Service {
    /// Says what the receiver said.
    pub(crate) async fn send(&self, target: Target, delivery: &NewDelivery) -> Result<String, SendError> {
        let within = self.rules().alerts.perseverance.timeout;
        let sent = tokio::time::timeout(within, self.send_at_last(target, delivery)).await;
        sent.unwrap_or(Err(SendError::TooLate { seconds: within.as_secs() }))
    }

    async fn send_at_last(&self, target: Target, delivery: &NewDelivery) -> Result<String, SendError> {
        let config = &self.rules().alerts;
        let receivers = config.receivers_at(target.level).ok_or(SendError::NobodyThere)?;
        let notice: AlertNotice = serde_json::from_str(&delivery.notice).map_err(SendError::Unreadable)?;
        match target.channel {
            Channel::Webhook => {
                let to = receivers.webhook.as_ref().ok_or(SendError::NobodyThere)?;
                let seconds = self.now().0.div_euclid(1_000);
                let request = webhook::request(to, &delivery.id, &delivery.notice, seconds);
                Ok(self.desk().post()?.post(request?).await?)
            }
            Channel::Slack => {
                let to = receivers.slack.as_ref().ok_or(SendError::NobodyThere)?;
                let request = slack::request(to, &notice);
                Ok(self.desk().post()?.post(request?).await?)
            }
            Channel::Email => {
                let smtp = config.smtp.as_ref().ok_or(SendError::NobodyThere)?;
                let to = &receivers.email;
                Ok(email::send(smtp, to, &delivery.id, &notice, config.perseverance.timeout).await?)
            }
        }
    }
}
