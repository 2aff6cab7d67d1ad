//! Whether the parts that everything rests on answer. What cannot be found out is unknown, never fine.

use std::fmt::Display;
use std::time::Duration;

use pinfold_api::{Health, HealthPart, HealthState};
use pinfold_provider::Provider;
use pinfold_store::Store;
use tokio::time::timeout;

use super::Service;
use super::words::moment;

/// How long each part has to answer.
const ANSWER: Duration = Duration::from_secs(5);

impl Service {
    /// Always answers.
    pub async fn health(&self) -> Health {
        let (stats, nodes, capacity, troubles, alerts) = tokio::join!(
            timeout(ANSWER, self.stats()),
            timeout(ANSWER, self.host.store.nodes()),
            timeout(ANSWER, self.host.provider.capacity()),
            timeout(ANSWER, self.host.cleaner.troubles()),
            timeout(ANSWER, self.active_alerts()),
        );
        let store = match &stats {
            Ok(Ok(_)) => fine(),
            Ok(Err(failure)) => bad(HealthState::Failing, &failure.detail.message),
            Err(_) => bad(HealthState::Unknown, "it does not answer"),
        };
        let provider = match &capacity {
            Ok(Ok(_)) => fine(),
            Ok(Err(error)) => bad(HealthState::Failing, error),
            Err(_) => bad(HealthState::Unknown, "it does not answer"),
        };
        let cleanup = match &troubles {
            Ok(Ok(troubles)) if troubles.is_empty() => fine(),
            Ok(Ok(troubles)) => bad(HealthState::Failing, troubles.join("; ")),
            Ok(Err(error)) => bad(HealthState::Unknown, error),
            Err(_) => bad(HealthState::Unknown, "the store does not answer"),
        };
        let capacity = capacity.ok().and_then(Result::ok);
        Health {
            status: store.status.max(provider.status).max(cleanup.status),
            store,
            provider,
            cleanup,
            sandboxes: stats.ok().and_then(Result::ok),
            nodes: nodes.ok().and_then(Result::ok).map(|nodes| nodes.len() as u64),
            memory_mb_left: capacity.as_ref().and_then(|left| left.memory_mb_left),
            disk_mb_left: capacity.as_ref().and_then(|left| left.disk_mb_left),
            alerts: alerts.ok().and_then(Result::ok),
            at: moment(self.now()),
        }
    }
}

fn fine() -> HealthPart {
    HealthPart { status: HealthState::Ok, message: None }
}

fn bad(status: HealthState, why: impl Display) -> HealthPart {
    HealthPart { status, message: Some(why.to_string()) }
}
