//! Requests to the backend for logs, events, health and consistency checks.

use pinfold_api::{ConsistencyReport, EventPage, Health, LogPage};
use pinfold_engine::ReconcileMode;
use pinfold_logs::Cursor;

use super::requests::seconds;
use super::{Backend, BackendError};

/// Entries and events read at a time.
const PAGE: usize = 1_000;

impl Backend {
    /// Reads one page of a sandbox's log after a cursor; an empty cursor is the beginning.
    pub(crate) async fn logs(&self, id: &str, after: &str) -> anyhow::Result<LogPage> {
        match self {
            Self::Server(server) => {
                server.client.logs(id, after).await.map_err(|error| server.error(error).into())
            }
            Self::Local(local) => {
                let after = if after.is_empty() { Cursor::default() } else { after.parse()? };
                Ok(local.service.log(id.parse()?, &after, PAGE).await.map_err(BackendError::from)?)
            }
        }
    }

    /// Reads one page of events of one sandbox, or of all, after a sequence number.
    pub(crate) async fn events(&self, id: Option<&str>, after: u64) -> anyhow::Result<EventPage> {
        match self {
            Self::Server(server) => {
                server.client.events(id, after).await.map_err(|error| server.error(error).into())
            }
            Self::Local(local) => {
                let of = id.map(str::parse).transpose()?;
                Ok(local.service.events(of, after, PAGE).await.map_err(BackendError::from)?)
            }
        }
    }

    pub(crate) async fn health(&self) -> anyhow::Result<Health> {
        match self {
            Self::Server(server) => server.client.health().await.map_err(|error| server.error(error).into()),
            Self::Local(local) => Ok(local.service.health().await),
        }
    }

    /// Compares records with instances, without repairing anything.
    pub(crate) async fn audit(&self) -> anyhow::Result<ConsistencyReport> {
        match self {
            Self::Server(server) => server.client.audit().await.map_err(|error| server.error(error).into()),
            Self::Local(local) => {
                Ok(local.service.compare(ReconcileMode::DryRun).await.map_err(BackendError::from)?)
            }
        }
    }
    /// Compares, repairs, and waits up to `wait_ms` for the repairs.
    pub(crate) async fn reconcile(&self, wait_ms: u64) -> anyhow::Result<ConsistencyReport> {
        match self {
            Self::Server(server) => {
                let report = server.client.reconcile(seconds(wait_ms)).await;
                report.map_err(|error| server.error(error).into())
            }
            Self::Local(local) => Ok(local.service.reconcile(wait_ms).await.map_err(BackendError::from)?),
        }
    }
}
