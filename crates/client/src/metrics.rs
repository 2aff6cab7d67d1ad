//! Figures of all sandboxes.

use hyper::Method;
use pinfold_api::{Metrics, MetricsHistory};

use crate::client::{NOTHING, encoded, read};
use crate::{Client, ClientError};

impl Client {
    /// As far back as `window` says, such as `5m`. Without it: an hour.
    pub async fn metrics(&self, window: Option<&str>) -> Result<Metrics, ClientError> {
        let window = window.map(|window| format!("?window={}", encoded(window))).unwrap_or_default();
        read(self.ask(Method::GET, &format!("/api/sandbox/metrics{window}"), NOTHING).await?).await
    }

    /// One figure between two moments in RFC 3339. Without them: the last hour.
    pub async fn metrics_history(
        &self,
        metric: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<MetricsHistory, ClientError> {
        let mut path = format!("/api/sandbox/metrics/history?metric={}", encoded(metric));
        for (name, moment) in [("from", from), ("to", to)] {
            if let Some(moment) = moment {
                path.push_str(&format!("&{name}={}", encoded(moment)));
            }
        }
        read(self.ask(Method::GET, &path, NOTHING).await?).await
    }
}
