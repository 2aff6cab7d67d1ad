//! What was written and what happened, and whether all is well: read here, or asked of a server elsewhere.

use pinfold_api::{Comparison, EventPage, Health, LogPage};
use pinfold_engine::Reconcile;
use pinfold_logs::Cursor;

use super::asked::seconds;
use super::{Plane, PlaneError};

/// Entries and events read at a time.
const PAGE: usize = 1_000;

impl Plane {
    /// A page of a sandbox's log after a place, or from its beginning.
    pub(crate) async fn logs(&self, id: &str, after: &str) -> anyhow::Result<LogPage> {
        match self {
            Self::Server(server) => {
                server.client.logs(id, after).await.map_err(|error| server.judge(error).into())
            }
            Self::Here(here) => {
                let after = if after.is_empty() { Cursor::default() } else { after.parse()? };
                Ok(here.service.log(id.parse()?, &after, PAGE).await.map_err(PlaneError::from)?)
            }
        }
    }

    /// What happened to one sandbox or to all, after a number.
    pub(crate) async fn events(&self, id: Option<&str>, after: u64) -> anyhow::Result<EventPage> {
        match self {
            Self::Server(server) => {
                server.client.events(id, after).await.map_err(|error| server.judge(error).into())
            }
            Self::Here(here) => {
                let of = id.map(str::parse).transpose()?;
                Ok(here.service.events(of, after, PAGE).await.map_err(PlaneError::from)?)
            }
        }
    }

    pub(crate) async fn health(&self) -> anyhow::Result<Health> {
        match self {
            Self::Server(server) => server.client.health().await.map_err(|error| server.judge(error).into()),
            Self::Here(here) => Ok(here.service.health().await),
        }
    }

    /// Compares what is recorded with what is there, and repairs nothing.
    pub(crate) async fn audit(&self) -> anyhow::Result<Comparison> {
        match self {
            Self::Server(server) => server.client.audit().await.map_err(|error| server.judge(error).into()),
            Self::Here(here) => {
                Ok(here.service.compare(Reconcile::DryRun).await.map_err(PlaneError::from)?)
            }
        }
    }
    /// Compares, repairs, and waits so long until that is done.
    pub(crate) async fn reconcile(&self, wait_ms: u64) -> anyhow::Result<Comparison> {
        match self {
            Self::Server(server) => {
                let found = server.client.reconcile(seconds(wait_ms)).await;
                found.map_err(|error| server.judge(error).into())
            }
            Self::Here(here) => Ok(here.service.reconcile(wait_ms).await.map_err(PlaneError::from)?),
        }
    }
}
