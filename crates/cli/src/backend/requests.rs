//! Requests about sandboxes, executions, images and tokens, sent to the backend.

use std::time::Duration;

use pinfold_api::{
    CreateSandbox, ErrorCode, Examination, ExecRequest, Execution, Image, ImageRemoved, Metrics, NewToken,
    OutputPage, Receipt, Resources, RunRequest, Sandbox, SandboxSummary, Stats, StdinAnswer, StdinRequest,
    TerminalSize, Token, TokenCreated,
};
use pinfold_client::{Completion, encode_query_value};
use pinfold_lifecycle::{ExecutionId, SandboxId, TokenId};
use pinfold_service::Failure as ServiceFailure;
use pinfold_service::{self as service, AttachedRun, CreateOptions, CreateOutcome, StopResult, WaitFor};

use crate::queue_wait::QueueRequest;

use super::{Backend, BackendError, Local, Running, Stream};

pub(crate) use service::SandboxQuery;

/// Longest wait for a start. The start and the proof after a failed start have their own, shorter deadlines.
pub(super) const START_TIMEOUT_S: u64 = 120;
/// Rows of a list read at a time.
const PAGE: usize = 1_000;

pub(super) type Reply<T> = Result<T, BackendError>;

/// Sends a request to the server or to the service in this process.
macro_rules! dispatch {
    ($backend:expr, $server:ident => $remote:expr, $local:ident => $in_process:expr) => {
        match $backend {
            Backend::Server($server) => $remote.await.map_err(|error| $server.error(error)),
            Backend::Local($local) => $in_process.await.map_err(BackendError::from),
        }
    };
}
pub(super) use dispatch;

pub(super) fn sandbox_id(given: &str) -> Result<SandboxId, ServiceFailure> {
    given
        .parse()
        .map_err(|_| ServiceFailure::new(ErrorCode::UnknownSandbox, format!("there is no sandbox `{given}`")))
}

fn execution_id(given: &str) -> Result<ExecutionId, ServiceFailure> {
    given.parse().map_err(|_| {
        ServiceFailure::new(ErrorCode::UnknownExecution, format!("there is no execution `{given}`"))
    })
}

fn token_id(given: &str) -> Result<TokenId, ServiceFailure> {
    given
        .parse()
        .map_err(|_| ServiceFailure::new(ErrorCode::UnknownToken, format!("there is no token `{given}`")))
}

/// Rounds up to whole seconds, at most an hour.
pub(super) fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1_000).min(3_600)
}

/// Without a server a create request waits in the queue and is never answered with a queue entry.
pub(super) fn created_sandbox(creation: CreateOutcome) -> Result<Sandbox, ServiceFailure> {
    match creation {
        CreateOutcome::Ready(sandbox) | CreateOutcome::Ended(sandbox) | CreateOutcome::Pending(sandbox) => {
            Ok(*sandbox)
        }
        CreateOutcome::Queued(entry) => {
            Err(ServiceFailure::internal(format!("{} is still in the queue", entry.id)))
        }
    }
}

impl Backend {
    pub(crate) async fn list(&self, filter: &SandboxQuery) -> Reply<Vec<SandboxSummary>> {
        dispatch!(self, server => server.client.list(&query(filter)), local => local.list(filter))
    }

    pub(crate) async fn stats(&self) -> Reply<Stats> {
        dispatch!(self, server => server.client.stats(), local => local.service.stats())
    }

    /// Metrics over the last `window`.
    pub(crate) async fn metrics(&self, window: Duration) -> Reply<Metrics> {
        let text = format!("{}s", window.as_secs());
        dispatch!(self, server => server.client.metrics(Some(&text)), local => local.service.metrics(window))
    }

    pub(crate) async fn sandbox(&self, id: &str) -> Reply<Sandbox> {
        dispatch!(self, server => server.client.sandbox(id), local => async {
            local.service.sandbox(sandbox_id(id)?).await
        })
    }

    pub(crate) async fn resources(&self, id: &str) -> Reply<Resources> {
        dispatch!(self, server => server.client.resources(id), local => async {
            local.service.resources(sandbox_id(id)?).await
        })
    }

    pub(crate) async fn executions(&self, id: &str) -> Reply<Vec<Execution>> {
        dispatch!(self, server => server.client.executions(id), local => async {
            local.service.executions(sandbox_id(id)?).await
        })
    }

    pub(crate) async fn execution(&self, id: &str) -> Reply<Execution> {
        dispatch!(self, server => server.client.execution(id), local => async {
            local.service.execution(execution_id(id)?).await
        })
    }

    /// With `wait`, returns when the sandbox is ready or its start has failed.
    pub(crate) async fn create(&self, request: &CreateSandbox, wait: bool) -> Reply<Sandbox> {
        let wait_s = if wait { START_TIMEOUT_S } else { 0 };
        dispatch!(self, server => server.client.create_and_wait(request, wait_s), local => async {
            created_sandbox(local.service.create(request, CreateOptions::default(), wait_s * 1_000).await?)
        })
    }

    /// None: not proven gone within the wait.
    pub(crate) async fn stop(&self, id: &str, grace_ms: Option<u64>, wait_ms: u64) -> Reply<Option<Receipt>> {
        match self {
            Self::Server(server) => match server.client.stop(id, grace_ms, seconds(wait_ms)).await {
                Ok(Completion::Done(receipt)) => Ok(Some(receipt)),
                Ok(Completion::Pending(_)) => Ok(None),
                Err(error) => Err(server.error(error)),
            },
            Self::Local(local) => match local.service.stop(sandbox_id(id)?, grace_ms, wait_ms).await? {
                StopResult::Gone(receipt) => Ok(Some(*receipt)),
                StopResult::Pending(_) => Ok(None),
            },
        }
    }

    /// None: not proven gone within the wait.
    pub(crate) async fn wait_gone(&self, id: &str, wait_ms: u64) -> Reply<Option<Sandbox>> {
        match self {
            Self::Server(server) => match server.client.wait_gone(id, seconds(wait_ms)).await {
                Ok(Completion::Done(sandbox)) => Ok(Some(sandbox)),
                Ok(Completion::Pending(_)) => Ok(None),
                Err(error) => Err(server.error(error)),
            },
            Self::Local(local) => Ok(local.service.wait(sandbox_id(id)?, WaitFor::Gone, wait_ms).await?),
        }
    }

    /// Records an attestation that a quarantined instance is gone. A server takes the operator's name from the token.
    pub(crate) async fn attest(&self, id: &str, by: String, reason: &str) -> anyhow::Result<()> {
        match self {
            Self::Server(server) => {
                server.client.attest(id, reason).await.map_err(|error| server.error(error))?;
            }
            Self::Local(local) => {
                let id = sandbox_id(id).map_err(BackendError::from)?;
                local.service.host().engine.attest(id, by, reason.to_owned()).await?;
            }
        }
        Ok(())
    }

    /// Deletes the record of a sandbox that is proven gone.
    pub(crate) async fn forget(&self, id: &str) -> anyhow::Result<()> {
        match self {
            Self::Server(server) => {
                server.client.forget(id, 0).await.map_err(|error| server.error(error))?;
            }
            Self::Local(local) => {
                let id = sandbox_id(id).map_err(BackendError::from)?;
                local.service.host().engine.forget(id).await?;
            }
        }
        Ok(())
    }

    /// Diagnoses one sandbox.
    pub(crate) async fn examine(&self, id: &str) -> Reply<Examination> {
        dispatch!(self, server => server.client.examine(id), local => async {
            local.service.examine(sandbox_id(id)?).await
        })
    }

    /// Sets the terminal size of an execution, which may not have started yet.
    pub(crate) async fn resize(&self, execution: &str, size: TerminalSize) -> Reply<()> {
        dispatch!(self, server => async { server.client.resize(execution, size).await.map(drop) }, local => async {
            local.service.resize(execution_id(execution)?, size).await
        })
    }

    /// Runs a command in a new sandbox that ends with the command or with this process.
    pub(crate) async fn run(
        &self,
        request: RunRequest,
        queue: Option<QueueRequest>,
    ) -> anyhow::Result<Running> {
        match self {
            Self::Server(server) => {
                let events = match queue {
                    Some(QueueRequest { id, ms }) => {
                        server.client.run_streamed_queued(&request, &id.to_string(), ms).await
                    }
                    None => server.client.run_streamed(&request).await,
                };
                Stream::of_run(events.map_err(|error| server.error(error))?)
            }
            Self::Local(local) => {
                let AttachedRun { sandbox, execution, events } = local
                    .service
                    .run(request, local.create_options(queue))
                    .await
                    .map_err(BackendError::from)?;
                Ok(Running::new(sandbox.to_string(), execution.to_string(), Stream::Local(events)))
            }
        }
    }

    pub(crate) async fn exec(&self, id: &str, request: &ExecRequest) -> anyhow::Result<Running> {
        match self {
            Self::Server(server) => {
                let events = server.client.exec_streamed(id, request).await;
                Stream::of_exec(id, events.map_err(|error| server.error(error))?)
            }
            Self::Local(local) => {
                let id = sandbox_id(id).map_err(BackendError::from)?;
                let started = local.service.exec(id, request).await.map_err(BackendError::from)?;
                let stream = self.follow(&started.execution.to_string(), 0).await?;
                Ok(Running::new(id.to_string(), started.execution.to_string(), stream))
            }
        }
    }

    pub(crate) async fn follow(&self, execution: &str, after: u64) -> Reply<Stream> {
        match self {
            Self::Server(server) => {
                let events = server.client.follow(execution, after).await;
                Ok(Stream::Server(Box::new(events.map_err(|error| server.error(error))?)))
            }
            Self::Local(local) => {
                Ok(Stream::Local(local.service.follow(execution_id(execution)?, after).await?))
            }
        }
    }

    /// Output written so far, after a sequence number.
    pub(crate) async fn output(&self, execution: &str, after: u64) -> Reply<OutputPage> {
        dispatch!(self, server => server.client.output(execution, after), local => async {
            local.service.output(execution_id(execution)?, after).await
        })
    }

    /// Cancels an execution without waiting for its end.
    pub(crate) async fn cancel(&self, execution: &str) -> Reply<Execution> {
        dispatch!(self, server => server.client.begin_cancel(execution), local => async {
            local.service.cancel(execution_id(execution)?, 0).await
        })
    }

    pub(crate) async fn write_stdin(&self, execution: &str, request: &StdinRequest) -> Reply<StdinAnswer> {
        dispatch!(self, server => server.client.write_stdin(execution, request), local => async {
            local.service.feed(execution_id(execution)?, request).await
        })
    }

    pub(crate) async fn images(&self) -> Reply<Vec<Image>> {
        dispatch!(self, server => server.client.images(), local => local.service.images())
    }

    pub(crate) async fn remove_image(&self, name: &str) -> Reply<ImageRemoved> {
        dispatch!(self, server => server.client.remove_image(name), local => {
            local.service.remove_image(name.to_owned())
        })
    }

    pub(crate) async fn tokens(&self) -> Reply<Vec<Token>> {
        dispatch!(self, server => server.client.tokens(), local => local.service.tokens())
    }

    pub(crate) async fn create_token(&self, request: &NewToken) -> Reply<TokenCreated> {
        dispatch!(self, server => server.client.create_token(request), local => local.service.create_token(request))
    }

    pub(crate) async fn revoke_token(&self, id: &str) -> Reply<Token> {
        dispatch!(self, server => server.client.revoke_token(id), local => async {
            local.service.revoke_token(token_id(id)?).await
        })
    }
}

impl Local {
    async fn list(&self, filter: &SandboxQuery) -> Result<Vec<SandboxSummary>, ServiceFailure> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.service.list(filter, after, PAGE).await?;
            all.extend(page.sandboxes);
            after = page.next;
            if after.is_none() {
                return Ok(all);
            }
        }
    }
}

fn query(filter: &SandboxQuery) -> String {
    let one = |name: &str, value: &Option<String>| {
        value.as_ref().map(|value| format!("{name}={}", encode_query_value(value)))
    };
    let plain = [
        one("status", &filter.status),
        one("agent_type", &filter.agent_type),
        one("task_id", &filter.task_id),
    ];
    let labels = filter
        .labels
        .iter()
        .map(|(name, value)| format!("label={}", encode_query_value(&format!("{name}={value}"))));
    plain.into_iter().flatten().chain(labels).collect::<Vec<_>>().join("&")
}
