//! What a command works on: the server that runs on the data directory or that `PINFOLD_URL` names, or the same
//! service in this very process. Both answer in the words of the API, so that a command is written once.

mod alerts;
mod asked;
mod cleanup;
mod files;
mod found;
mod history;
mod queue;
mod stream;

use std::sync::Arc;

use pinfold_api as api;
use pinfold_client::{Client, ClientError};
use pinfold_engine::OnExit;
use pinfold_server::{Failure as ServiceFailure, Service};

use crate::Place;
use crate::host::begin_service;

pub(crate) use asked::Wanted;
pub(crate) use files::{Held, send_pieces};
pub(crate) use found::{Target, target};
pub(crate) use stream::{Running, Stream};

pub(crate) enum Plane {
    Server(Server),
    Here(Here),
}

/// A server, and whether it works on the data directory that this command would work on.
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) address: String,
    pub(crate) is_of_this_place: bool,
}

pub(crate) struct Here {
    pub(crate) service: Arc<Service>,
}

/// Why it was not done, whoever was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaneError {
    #[error("{}{}", detail.message, more(hidden.as_ref()))]
    Refused { detail: Box<api::ErrorDetail>, hidden: Option<String> },
    #[error(
        "the server at {address} does not take this token; set PINFOLD_TOKEN to one that `pinfold token create` \
         made there, or leave PINFOLD_URL unset for the server of this host"
    )]
    NotLetIn { address: String },
    #[error("this needs another token: {message}; `pinfold token create --role` makes one")]
    TooSmallARole { message: String },
    #[error("the server at {address} does not answer; see whether it runs, or say --local to do without it")]
    Unreachable { address: String, source: ClientError },
}

fn more(hidden: Option<&String>) -> String {
    hidden.map(|hidden| format!(": {hidden}")).unwrap_or_default()
}

impl From<ServiceFailure> for PlaneError {
    /// There is no log here that would tell what is hidden from others.
    fn from(failure: ServiceFailure) -> Self {
        Self::Refused { detail: Box::new(failure.detail), hidden: failure.hidden }
    }
}

impl PlaneError {
    pub(crate) fn code(&self) -> Option<api::ErrorCode> {
        match self {
            Self::Refused { detail, .. } => Some(detail.code),
            Self::NotLetIn { .. } => Some(api::ErrorCode::Unauthorized),
            Self::TooSmallARole { .. } => Some(api::ErrorCode::Forbidden),
            Self::Unreachable { .. } => None,
        }
    }
}

impl Server {
    pub(crate) fn judge(&self, error: ClientError) -> PlaneError {
        match error {
            ClientError::Refused { detail, .. } => match detail.code {
                api::ErrorCode::Unauthorized => PlaneError::NotLetIn { address: self.address.clone() },
                api::ErrorCode::Forbidden => PlaneError::TooSmallARole { message: detail.message },
                _ => PlaneError::Refused { detail, hidden: None },
            },
            source => PlaneError::Unreachable { address: self.address.clone(), source },
        }
    }
}

impl Plane {
    /// The server where one is, else this process.
    pub(crate) async fn open(place: &Place) -> anyhow::Result<Self> {
        match target(place).await? {
            Target::Server(server) => Ok(Self::Server(server)),
            Target::Here => Self::here(place).await,
        }
    }

    pub(crate) async fn here(place: &Place) -> anyhow::Result<Self> {
        Ok(Self::Here(Here { service: Arc::new(begin_service(place).await?) }))
    }

    /// For what this process knows better than a server: this process, unless the server is elsewhere.
    pub(crate) async fn open_at_hand(place: &Place) -> anyhow::Result<Self> {
        match target(place).await? {
            Target::Server(server) if !server.is_of_this_place => Ok(Self::Server(server)),
            Target::Server(_) | Target::Here => Self::here(place).await,
        }
    }

    /// Leaves everything to whoever comes next.
    pub(crate) async fn close(&self) -> anyhow::Result<()> {
        match self {
            Self::Server(_) => Ok(()),
            Self::Here(here) => Ok(here.service.shutdown(OnExit::Keep, 0).await.map(drop)?),
        }
    }
}
