//! Requests to the backend that wait in the admission queue.

use pinfold_api::{CreatePending, CreateSandbox, ErrorCode, QueueEntry, Sandbox};
use pinfold_client::Completion;
use pinfold_lifecycle::QueueId;
use pinfold_service::CreateOptions;
use pinfold_service::Failure as ServiceFailure;

use super::requests::{Reply, START_TIMEOUT_S, created_sandbox, dispatch};
use super::{Backend, BackendError, Local};
use crate::queue_wait::QueueRequest;

impl Local {
    pub(super) fn create_options(&self, queue: Option<QueueRequest>) -> CreateOptions<'static> {
        let queue = queue.map(|QueueRequest { id, ms }| self.service.queue_for(id, ms));
        CreateOptions { queue, ..CreateOptions::default() }
    }
}

impl Backend {
    /// Waits for capacity, and with `wait` also until the sandbox is ready.
    pub(crate) async fn create_queued(
        &self,
        request: &CreateSandbox,
        wait: bool,
        queue: QueueRequest,
    ) -> Reply<Sandbox> {
        match self {
            Self::Server(server) => {
                // With a wait of 0 the server would answer with a queue entry instead of a sandbox.
                let wait_s = if wait { START_TIMEOUT_S } else { 1 };
                let queue_id = queue.id.to_string();
                let created = server.client.create_queued(request, wait_s, (&queue_id, queue.ms)).await;
                match created.map_err(|error| server.error(error))? {
                    Completion::Done(sandbox) => Ok(sandbox),
                    Completion::Pending(CreatePending::Starting(sandbox)) => Ok(*sandbox),
                    Completion::Pending(CreatePending::Queued(_)) => {
                        let message = "the server did not wait for capacity";
                        Err(ServiceFailure::new(ErrorCode::LimitReached, message).into())
                    }
                }
            }
            Self::Local(local) => {
                let wait_ms = if wait { START_TIMEOUT_S * 1_000 } else { 0 };
                Ok(created_sandbox(
                    local.service.create(request, local.create_options(Some(queue)), wait_ms).await?,
                )?)
            }
        }
    }

    pub(crate) async fn queue_entry(&self, id: QueueId) -> Reply<QueueEntry> {
        dispatch!(self, server => async { server.client.queue_entry(&id.to_string(), 0).await },
            local => local.service.queue_entry(id, 0))
    }
}
