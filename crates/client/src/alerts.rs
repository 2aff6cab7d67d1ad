//! Alerts: how they stand, what happened, who was told; to acknowledge, to silence, and to test.

use hyper::Method;
use pinfold_api::{Alert, AlertDeliveries, AlertHistory, AlertList, AlertState, AlertTest, SilenceAlert};

use crate::client::{NOTHING, encoded, read};
use crate::{Client, ClientError};

impl Client {
    /// All of them, or those in one state.
    pub async fn alerts(&self, state: Option<AlertState>) -> Result<AlertList, ClientError> {
        let state = state.map(|state| {
            let word = match state {
                AlertState::Inactive => "inactive",
                AlertState::Pending => "pending",
                AlertState::Firing => "firing",
                AlertState::Resolved => "resolved",
                AlertState::Unknown => "unknown",
            };
            format!("?state={word}")
        });
        let path = format!("/api/alerts{}", state.unwrap_or_default());
        read(self.ask(Method::GET, &path, NOTHING).await?).await
    }

    /// The latest that happened, to one alert or to all.
    pub async fn alert_history(&self, of: Option<&str>, limit: u64) -> Result<AlertHistory, ClientError> {
        let of = of.map(|name| format!("&name={}", encoded(name))).unwrap_or_default();
        let path = format!("/api/alerts/history?limit={limit}{of}");
        read(self.ask(Method::GET, &path, NOTHING).await?).await
    }

    /// The latest messages, and what came of them.
    pub async fn alert_deliveries(&self, limit: u64) -> Result<AlertDeliveries, ClientError> {
        let path = format!("/api/alerts/deliveries?limit={limit}");
        read(self.ask(Method::GET, &path, NOTHING).await?).await
    }

    pub async fn acknowledge_alert(&self, name: &str) -> Result<Alert, ClientError> {
        let path = format!("/api/alerts/{}/acknowledge", encoded(name));
        read(self.ask(Method::POST, &path, NOTHING).await?).await
    }

    pub async fn silence_alert(&self, name: &str, wish: &SilenceAlert) -> Result<Alert, ClientError> {
        let path = format!("/api/alerts/{}/silence", encoded(name));
        read(self.ask(Method::POST, &path, Some(wish)).await?).await
    }

    pub async fn unsilence_alert(&self, name: &str) -> Result<Alert, ClientError> {
        let path = format!("/api/alerts/{}/silence", encoded(name));
        read(self.ask(Method::DELETE, &path, NOTHING).await?).await
    }

    /// Sends a message by every way that is configured, and says what came of each.
    pub async fn test_alerts(&self) -> Result<AlertTest, ClientError> {
        read(self.ask(Method::POST, "/api/alerts/test", NOTHING).await?).await
    }
}
