//! Alerts: state, history and deliveries; acknowledge, silence and test them.

use hyper::Method;
use pinfold_api::{Alert, AlertDeliveries, AlertHistory, AlertList, AlertState, AlertTest, SilenceAlert};

use crate::client::{NO_BODY, encode_query_value, read_json};
use crate::{Client, ClientError};

impl Client {
    /// Lists all alerts, or those in one state.
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
        read_json(self.request(Method::GET, &path, NO_BODY).await?).await
    }

    /// Reads the newest history entries of one alert, or of all.
    pub async fn alert_history(&self, name: Option<&str>, limit: u64) -> Result<AlertHistory, ClientError> {
        let filter = name.map(|name| format!("&name={}", encode_query_value(name))).unwrap_or_default();
        let path = format!("/api/alerts/history?limit={limit}{filter}");
        read_json(self.request(Method::GET, &path, NO_BODY).await?).await
    }

    /// Reads the newest notifications and their delivery results.
    pub async fn alert_deliveries(&self, limit: u64) -> Result<AlertDeliveries, ClientError> {
        let path = format!("/api/alerts/deliveries?limit={limit}");
        read_json(self.request(Method::GET, &path, NO_BODY).await?).await
    }

    pub async fn acknowledge_alert(&self, name: &str) -> Result<Alert, ClientError> {
        let path = format!("/api/alerts/{}/acknowledge", encode_query_value(name));
        read_json(self.request(Method::POST, &path, NO_BODY).await?).await
    }

    pub async fn silence_alert(&self, name: &str, request: &SilenceAlert) -> Result<Alert, ClientError> {
        let path = format!("/api/alerts/{}/silence", encode_query_value(name));
        read_json(self.request(Method::POST, &path, Some(request)).await?).await
    }

    pub async fn unsilence_alert(&self, name: &str) -> Result<Alert, ClientError> {
        let path = format!("/api/alerts/{}/silence", encode_query_value(name));
        read_json(self.request(Method::DELETE, &path, NO_BODY).await?).await
    }

    /// Sends a test message through every configured channel and returns each result.
    pub async fn test_alerts(&self) -> Result<AlertTest, ClientError> {
        read_json(self.request(Method::POST, "/api/alerts/test", NO_BODY).await?).await
    }
}
