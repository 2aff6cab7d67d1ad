//! Alerts, of a server or of this place.

use pinfold_api::{Alert, AlertDeliveries, AlertHistory, AlertList, AlertState, AlertTest, SilenceAlert};
use pinfold_server::Failure as ServiceFailure;

use super::asked::{Asked, ask};
use super::{Plane, PlaneError};
use crate::stop::operator;

/// As many as one answer may have.
const MOST: u64 = 1_000;

impl Plane {
    pub(crate) async fn alerts(&self, state: Option<AlertState>) -> Asked<AlertList> {
        ask!(self, server => server.client.alerts(state), here => here.service.alerts(state))
    }

    pub(crate) async fn alert_history(&self, of: Option<&str>, limit: u64) -> Asked<AlertHistory> {
        ask!(self, server => server.client.alert_history(of, limit), here => {
            here.service.alert_history(of, None, count(limit))
        })
    }

    pub(crate) async fn alert_deliveries(&self, limit: u64) -> Asked<AlertDeliveries> {
        ask!(self, server => server.client.alert_deliveries(limit), here => {
            here.service.alert_deliveries(None, count(limit))
        })
    }

    /// By whom, a server knows by the token.
    pub(crate) async fn acknowledge_alert(&self, name: &str) -> Asked<Alert> {
        ask!(self, server => server.client.acknowledge_alert(name), here => async {
            here.service.acknowledge_alert(name, &operator()).await
        })
    }

    pub(crate) async fn silence_alert(&self, name: &str, wish: &SilenceAlert) -> Asked<Alert> {
        ask!(self, server => server.client.silence_alert(name, wish), here => async {
            here.service.silence_alert(name, wish, &operator()).await
        })
    }

    pub(crate) async fn unsilence_alert(&self, name: &str) -> Asked<Alert> {
        ask!(self, server => server.client.unsilence_alert(name), here => async {
            here.service.unsilence_alert(name, &operator()).await
        })
    }

    pub(crate) async fn test_alerts(&self) -> Asked<AlertTest> {
        ask!(self, server => server.client.test_alerts(), here => async {
            Ok::<_, ServiceFailure>(here.service.test_alerts().await)
        })
    }
}

fn count(limit: u64) -> usize {
    usize::try_from(limit.min(MOST)).unwrap_or(usize::MAX)
}
