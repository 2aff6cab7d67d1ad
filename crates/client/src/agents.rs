//! Runs of agents, and the logs of their sandboxes.

use hyper::{Method, Response, StatusCode};
use pinfold_api::{AgentRequest, AgentRun, LogPage};

use crate::client::{NOTHING, read};
use crate::{Answered, Client, ClientError};

impl Client {
    /// Asks for a run and waits so long until it is over.
    pub async fn run_agent(
        &self,
        request: &AgentRequest,
        wait_s: u64,
    ) -> Result<Answered<AgentRun, AgentRun>, ClientError> {
        let path = format!("/api/agents/execute?wait={wait_s}");
        told(self.ask(Method::POST, &path, Some(request)).await?).await
    }

    /// A run by the id of its execution, once it is over or after so long.
    pub async fn agent_run(
        &self,
        execution: &str,
        wait_s: u64,
    ) -> Result<Answered<AgentRun, AgentRun>, ClientError> {
        let path = format!("/api/agents/runs/{execution}?wait={wait_s}");
        told(self.ask(Method::GET, &path, NOTHING).await?).await
    }

    /// A page of a sandbox's log, after a place in it. None: from the beginning.
    pub async fn log(&self, id: &str, after: Option<&str>) -> Result<LogPage, ClientError> {
        let after = after.map(|after| format!("?after={after}")).unwrap_or_default();
        read(self.ask(Method::GET, &format!("/api/sandbox/{id}/logs{after}"), NOTHING).await?).await
    }
}

async fn told(
    response: Response<hyper::body::Incoming>,
) -> Result<Answered<AgentRun, AgentRun>, ClientError> {
    if response.status() == StatusCode::ACCEPTED {
        return read(response).await.map(Answered::Pending);
    }
    read(response).await.map(Answered::Done)
}
