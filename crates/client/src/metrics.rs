//! Metrics over all sandboxes.

use hyper::Method;
use pinfold_api::{Metrics, MetricsHistory};

use crate::client::{NO_BODY, encode_query_value, read_json};
use crate::{Client, ClientError};

impl Client {
    /// Reads metrics over `window`, such as `5m`; by default one hour.
    pub async fn metrics(&self, window: Option<&str>) -> Result<Metrics, ClientError> {
        let window =
            window.map(|window| format!("?window={}", encode_query_value(window))).unwrap_or_default();
        read_json(self.request(Method::GET, &format!("/api/sandbox/metrics{window}"), NO_BODY).await?).await
    }

    /// Reads one metric between two RFC 3339 times; by default the last hour.
    pub async fn metrics_history(
        &self,
        metric: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<MetricsHistory, ClientError> {
        let mut path = format!("/api/sandbox/metrics/history?metric={}", encode_query_value(metric));
        for (name, time) in [("from", from), ("to", to)] {
            if let Some(time) = time {
                path.push_str(&format!("&{name}={}", encode_query_value(time)));
            }
        }
        read_json(self.request(Method::GET, &path, NO_BODY).await?).await
    }
}
