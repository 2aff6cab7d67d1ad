//! Each question to either side.

use std::time::Duration;

use pinfold_api::{
    CreateSandbox, ErrorCode, Examination, ExecRequest, Execution, Image, ImageRemoved, Metrics, NewToken,
    OutputPage, Receipt, Resources, RunRequest, Sandbox, SandboxSummary, Stats, StdinAnswer, StdinRequest,
    TerminalSize, Token, TokenCreated,
};
use pinfold_client::{Answered, encoded};
use pinfold_lifecycle::{ExecutionId, SandboxId, TokenId};
use pinfold_server::Failure as ServiceFailure;
use pinfold_server::service::{self, Asking, Attached, Creation, Stopped, WaitFor};

use crate::queueing::Ticket;

use super::{Here, Plane, PlaneError, Running, Stream};

pub(crate) use service::Wanted;

/// The start has a deadline of its own, and so has the proof that a failed one left nothing.
pub(super) const START_S: u64 = 120;
/// Of a list, read at a time.
const PAGE: usize = 1_000;

pub(super) type Asked<T> = Result<T, PlaneError>;

/// Asks the one or the other.
macro_rules! ask {
    ($plane:expr, $server:ident => $remote:expr, $here:ident => $local:expr) => {
        match $plane {
            Plane::Server($server) => $remote.await.map_err(|error| $server.judge(error)),
            Plane::Here($here) => $local.await.map_err(PlaneError::from),
        }
    };
}
pub(super) use ask;

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

/// In whole seconds, and no shorter.
pub(super) fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1_000).min(3_600)
}

/// In this process nobody is sent away with a place in the queue.
pub(super) fn made(creation: Creation) -> Result<Sandbox, ServiceFailure> {
    match creation {
        Creation::Ready(sandbox) | Creation::Pending(sandbox) => Ok(*sandbox),
        Creation::Queued(place) => {
            Err(ServiceFailure::internal(format!("{} was left in the queue", place.id)))
        }
    }
}

impl Plane {
    pub(crate) async fn list(&self, wanted: &Wanted) -> Asked<Vec<SandboxSummary>> {
        ask!(self, server => server.client.list(&query(wanted)), here => here.list(wanted))
    }

    pub(crate) async fn stats(&self) -> Asked<Stats> {
        ask!(self, server => server.client.stats(), here => here.service.stats())
    }

    /// As far back as this.
    pub(crate) async fn metrics(&self, window: Duration) -> Asked<Metrics> {
        let spelled = format!("{}s", window.as_secs());
        ask!(self, server => server.client.metrics(Some(&spelled)), here => here.service.metrics(window))
    }

    pub(crate) async fn sandbox(&self, id: &str) -> Asked<Sandbox> {
        ask!(self, server => server.client.sandbox(id), here => async {
            here.service.sandbox(sandbox_id(id)?).await
        })
    }

    pub(crate) async fn resources(&self, id: &str) -> Asked<Resources> {
        ask!(self, server => server.client.resources(id), here => async {
            here.service.resources(sandbox_id(id)?).await
        })
    }

    pub(crate) async fn executions(&self, id: &str) -> Asked<Vec<Execution>> {
        ask!(self, server => server.client.executions(id), here => async {
            here.service.executions(sandbox_id(id)?).await
        })
    }

    pub(crate) async fn execution(&self, id: &str) -> Asked<Execution> {
        ask!(self, server => server.client.execution(id), here => async {
            here.service.execution(execution_id(id)?).await
        })
    }

    /// With `wait`, it is ready when this answers, or will never be.
    pub(crate) async fn create(&self, wish: &CreateSandbox, wait: bool) -> Asked<Sandbox> {
        let wait_s = if wait { START_S } else { 0 };
        ask!(self, server => server.client.create_within(wish, wait_s), here => async {
            made(here.service.create(wish, Asking::default(), wait_s * 1_000).await?)
        })
    }

    /// None: it is not proven yet.
    pub(crate) async fn stop(&self, id: &str, force: bool, wait_ms: u64) -> Asked<Option<Receipt>> {
        match self {
            Self::Server(server) => match server.client.stop(id, force, seconds(wait_ms)).await {
                Ok(Answered::Done(receipt)) => Ok(Some(receipt)),
                Ok(Answered::Pending(_)) => Ok(None),
                Err(error) => Err(server.judge(error)),
            },
            Self::Here(here) => match here.service.stop(sandbox_id(id)?, force, wait_ms).await? {
                Stopped::Gone(receipt) => Ok(Some(*receipt)),
                Stopped::Pending(_) => Ok(None),
            },
        }
    }

    /// None: it is not proven yet.
    pub(crate) async fn wait_gone(&self, id: &str, wait_ms: u64) -> Asked<Option<Sandbox>> {
        match self {
            Self::Server(server) => match server.client.wait_gone(id, seconds(wait_ms)).await {
                Ok(Answered::Done(sandbox)) => Ok(Some(sandbox)),
                Ok(Answered::Pending(_)) => Ok(None),
                Err(error) => Err(server.judge(error)),
            },
            Self::Here(here) => Ok(here.service.wait(sandbox_id(id)?, WaitFor::Gone, wait_ms).await?),
        }
    }

    /// Records somebody's word that a quarantined body is gone: whose, a server knows by the token.
    pub(crate) async fn attest(&self, id: &str, by: String, reason: &str) -> anyhow::Result<()> {
        match self {
            Self::Server(server) => {
                server.client.attest(id, reason).await.map_err(|error| server.judge(error))?;
            }
            Self::Here(here) => {
                let id = sandbox_id(id).map_err(PlaneError::from)?;
                here.service.host().engine.attest(id, by, reason.to_owned()).await?;
            }
        }
        Ok(())
    }

    /// Forgets the record of a sandbox that is proven gone.
    pub(crate) async fn forget(&self, id: &str) -> anyhow::Result<()> {
        match self {
            Self::Server(server) => {
                server.client.forget(id, 0).await.map_err(|error| server.judge(error))?;
            }
            Self::Here(here) => {
                let id = sandbox_id(id).map_err(PlaneError::from)?;
                here.service.host().engine.forget(id).await?;
            }
        }
        Ok(())
    }

    /// Looks at one closely.
    pub(crate) async fn examine(&self, id: &str) -> Asked<Examination> {
        ask!(self, server => server.client.examine(id), here => async {
            here.service.examine(sandbox_id(id)?).await
        })
    }

    /// Says how large the terminal is; the command may not even run yet.
    pub(crate) async fn resize(&self, execution: &str, size: TerminalSize) -> Asked<()> {
        ask!(self, server => async { server.client.resize(execution, size).await.map(drop) }, here => async {
            here.service.resize(execution_id(execution)?, size).await
        })
    }

    /// The sandbox ends with the command, and with this process.
    pub(crate) async fn run(&self, request: RunRequest, turn: Option<Ticket>) -> anyhow::Result<Running> {
        match self {
            Self::Server(server) => {
                let events = match turn {
                    Some(Ticket { id, ms }) => {
                        server.client.run_streamed_in_turn(&request, &id.to_string(), ms).await
                    }
                    None => server.client.run_streamed(&request).await,
                };
                Stream::of_run(events.map_err(|error| server.judge(error))?)
            }
            Self::Here(here) => {
                let Attached { sandbox, execution, events } =
                    here.service.run(request, here.asking(turn)).await.map_err(PlaneError::from)?;
                Ok(Running::new(sandbox.to_string(), execution.to_string(), Stream::Here(events)))
            }
        }
    }

    pub(crate) async fn exec(&self, id: &str, request: &ExecRequest) -> anyhow::Result<Running> {
        match self {
            Self::Server(server) => {
                let events = server.client.exec_streamed(id, request).await;
                Stream::of_exec(id, events.map_err(|error| server.judge(error))?)
            }
            Self::Here(here) => {
                let id = sandbox_id(id).map_err(PlaneError::from)?;
                let started = here.service.exec(id, request).await.map_err(PlaneError::from)?;
                let stream = self.follow(&started.execution.to_string(), 0).await?;
                Ok(Running::new(id.to_string(), started.execution.to_string(), stream))
            }
        }
    }

    pub(crate) async fn follow(&self, execution: &str, after: u64) -> Asked<Stream> {
        match self {
            Self::Server(server) => {
                let events = server.client.follow(execution, after).await;
                Ok(Stream::Server(Box::new(events.map_err(|error| server.judge(error))?)))
            }
            Self::Here(here) => Ok(Stream::Here(here.service.follow(execution_id(execution)?, after).await?)),
        }
    }

    /// What a command has written so far, after a number.
    pub(crate) async fn output(&self, execution: &str, after: u64) -> Asked<OutputPage> {
        ask!(self, server => server.client.output(execution, after), here => async {
            here.service.output(execution_id(execution)?, after).await
        })
    }

    /// Without waiting for its end.
    pub(crate) async fn cancel(&self, execution: &str) -> Asked<Execution> {
        ask!(self, server => server.client.begin_cancel(execution), here => async {
            here.service.cancel(execution_id(execution)?, 0).await
        })
    }

    pub(crate) async fn feed(&self, execution: &str, request: &StdinRequest) -> Asked<StdinAnswer> {
        ask!(self, server => server.client.feed(execution, request), here => async {
            here.service.feed(execution_id(execution)?, request).await
        })
    }

    pub(crate) async fn images(&self) -> Asked<Vec<Image>> {
        ask!(self, server => server.client.images(), here => here.service.images())
    }

    pub(crate) async fn remove_image(&self, name: &str) -> Asked<ImageRemoved> {
        ask!(self, server => server.client.remove_image(name), here => {
            here.service.remove_image(name.to_owned())
        })
    }

    pub(crate) async fn tokens(&self) -> Asked<Vec<Token>> {
        ask!(self, server => server.client.tokens(), here => here.service.tokens())
    }

    pub(crate) async fn create_token(&self, asked: &NewToken) -> Asked<TokenCreated> {
        ask!(self, server => server.client.create_token(asked), here => here.service.create_token(asked))
    }

    pub(crate) async fn revoke_token(&self, id: &str) -> Asked<Token> {
        ask!(self, server => server.client.revoke_token(id), here => async {
            here.service.revoke_token(token_id(id)?).await
        })
    }
}

impl Here {
    async fn list(&self, wanted: &Wanted) -> Result<Vec<SandboxSummary>, ServiceFailure> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.service.list(wanted, after, PAGE).await?;
            all.extend(page.sandboxes);
            after = page.next;
            if after.is_none() {
                return Ok(all);
            }
        }
    }
}

fn query(wanted: &Wanted) -> String {
    let one =
        |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name}={}", encoded(value)));
    let plain = [
        one("status", &wanted.status),
        one("agent_type", &wanted.agent_type),
        one("task_id", &wanted.task_id),
    ];
    let labels =
        wanted.labels.iter().map(|(name, value)| format!("label={}", encoded(&format!("{name}={value}"))));
    plain.into_iter().flatten().chain(labels).collect::<Vec<_>>().join("&")
}
