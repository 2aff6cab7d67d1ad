//! Where a command runs: on a server (of the data directory, or named by `PINFOLD_URL`), or in this process with the same
//! service. Both return API types, so that each command is written once.
//!
//! ```text
//!   command ──> Backend::Server ──HTTP──> pinfold serve ─┐
//!          └──> Backend::Local ──────────────────────────┴─> Service ──> engine
//! ```

mod alerts;
mod cleanup;
mod discover;
mod files;
mod history;
mod queue;
mod requests;
mod stream;

use std::sync::Arc;

use pinfold_api as api;
use pinfold_client::{Client, ClientError};
use pinfold_engine::OnExit;
use pinfold_service::{Failure as ServiceFailure, Service};

use crate::GlobalOptions;
use crate::host::start_service;

pub(crate) use discover::{Target, target};
pub(crate) use files::{FileReader, upload_stream};
pub(crate) use requests::SandboxQuery;
pub(crate) use stream::{Running, Stream};

/// Executes requests of a command.
pub(crate) enum Backend {
    Server(Server),
    Local(Local),
}

/// A server, and whether it serves the data directory that this command would use.
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) address: String,
    pub(crate) serves_this_directory: bool,
}

/// The service in this process.
pub(crate) struct Local {
    pub(crate) service: Arc<Service>,
}

/// Why a request failed, on a server or in this process.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackendError {
    #[error("{}{}", detail.message, internal_suffix(internal.as_ref()))]
    Refused { detail: Box<api::ErrorDetail>, internal: Option<String> },
    #[error(
        "the server at {address} rejected the token; set PINFOLD_TOKEN to a token that `pinfold token create` \
         printed there, or unset PINFOLD_URL to use the server of this host"
    )]
    Unauthorized { address: String },
    #[error(
        "the token's role does not allow this: {message}; create another with `pinfold token create --role`"
    )]
    Forbidden { message: String },
    /// Another program may have taken the server's port.
    #[error(transparent)]
    Unproven(ClientError),
    #[error("the server at {address} does not answer; check that it runs, or use --local to work without it")]
    Unreachable { address: String, source: ClientError },
}

fn internal_suffix(internal: Option<&String>) -> String {
    internal.map(|internal| format!(": {internal}")).unwrap_or_default()
}

impl From<ServiceFailure> for BackendError {
    /// Includes the internal cause, which a server would write to its log.
    fn from(failure: ServiceFailure) -> Self {
        Self::Refused { detail: Box::new(failure.detail), internal: failure.hidden }
    }
}

impl BackendError {
    pub(crate) fn code(&self) -> Option<api::ErrorCode> {
        match self {
            Self::Refused { detail, .. } => Some(detail.code),
            Self::Unauthorized { .. } => Some(api::ErrorCode::Unauthorized),
            Self::Forbidden { .. } => Some(api::ErrorCode::Forbidden),
            Self::Unproven(_) | Self::Unreachable { .. } => None,
        }
    }
}

impl Server {
    pub(crate) fn error(&self, error: ClientError) -> BackendError {
        match error {
            ClientError::Refused { detail, .. } => match detail.code {
                api::ErrorCode::Unauthorized => BackendError::Unauthorized { address: self.address.clone() },
                api::ErrorCode::Forbidden => BackendError::Forbidden { message: detail.message },
                _ => BackendError::Refused { detail, internal: None },
            },
            error @ ClientError::Unproven { .. } => BackendError::Unproven(error),
            source => BackendError::Unreachable { address: self.address.clone(), source },
        }
    }
}

impl Backend {
    /// Uses the server if there is one, else this process.
    pub(crate) async fn open(global: &GlobalOptions) -> anyhow::Result<Self> {
        match target(global).await? {
            Target::Server(server) => Ok(Self::Server(server)),
            Target::Local => Self::local(global).await,
        }
    }

    pub(crate) async fn local(global: &GlobalOptions) -> anyhow::Result<Self> {
        Ok(Self::Local(Local { service: Arc::new(start_service(global).await?) }))
    }

    /// Uses this process, unless the server is remote.
    pub(crate) async fn open_preferring_local(global: &GlobalOptions) -> anyhow::Result<Self> {
        match target(global).await? {
            Target::Server(server) if !server.serves_this_directory => Ok(Self::Server(server)),
            Target::Server(_) | Target::Local => Self::local(global).await,
        }
    }

    /// Releases the engine; other processes adopt its sandboxes.
    pub(crate) async fn close(&self) -> anyhow::Result<()> {
        match self {
            Self::Server(_) => Ok(()),
            Self::Local(local) => Ok(local.service.shutdown(OnExit::Keep, 0).await.map(drop)?),
        }
    }
}
