//! Alert requests to the backend.

use pinfold_api::{Alert, AlertDeliveries, AlertHistory, AlertList, AlertState, AlertTest, SilenceAlert};
use pinfold_service::Failure as ServiceFailure;

use super::requests::{Reply, dispatch};
use super::{Backend, BackendError};
use crate::stop::operator;

/// Maximum number of entries in one answer.
const MAX_ENTRIES: u64 = 1_000;

impl Backend {
    pub(crate) async fn alerts(&self, state: Option<AlertState>) -> Reply<AlertList> {
        dispatch!(self, server => server.client.alerts(state), local => local.service.alerts(state))
    }

    pub(crate) async fn alert_history(&self, of: Option<&str>, limit: u64) -> Reply<AlertHistory> {
        dispatch!(self, server => server.client.alert_history(of, limit), local => {
            local.service.alert_history(of, None, count(limit))
        })
    }

    pub(crate) async fn alert_deliveries(&self, limit: u64) -> Reply<AlertDeliveries> {
        dispatch!(self, server => server.client.alert_deliveries(limit), local => {
            local.service.alert_deliveries(None, count(limit))
        })
    }

    /// A server takes the operator's name from the token.
    pub(crate) async fn acknowledge_alert(&self, name: &str) -> Reply<Alert> {
        dispatch!(self, server => server.client.acknowledge_alert(name), local => async {
            local.service.acknowledge_alert(name, &operator()).await
        })
    }

    pub(crate) async fn silence_alert(&self, name: &str, request: &SilenceAlert) -> Reply<Alert> {
        dispatch!(self, server => server.client.silence_alert(name, request), local => async {
            local.service.silence_alert(name, request, &operator()).await
        })
    }

    pub(crate) async fn unsilence_alert(&self, name: &str) -> Reply<Alert> {
        dispatch!(self, server => server.client.unsilence_alert(name), local => async {
            local.service.unsilence_alert(name, &operator()).await
        })
    }

    pub(crate) async fn test_alerts(&self) -> Reply<AlertTest> {
        dispatch!(self, server => server.client.test_alerts(), local => async {
            Ok::<_, ServiceFailure>(local.service.test_alerts().await)
        })
    }
}

fn count(limit: u64) -> usize {
    usize::try_from(limit.min(MAX_ENTRIES)).unwrap_or(usize::MAX)
}
