//! Agent runs: start one, and wait for its result.

use hyper::Method;
use pinfold_api::{AgentRequest, AgentRun};

use crate::client::{NO_BODY, read_completion};
use crate::{Client, ClientError, Completion};

impl Client {
    /// Starts an agent run and waits up to `wait_s` seconds for its end.
    pub async fn run_agent(
        &self,
        request: &AgentRequest,
        wait_s: u64,
    ) -> Result<Completion<AgentRun, AgentRun>, ClientError> {
        let path = format!("/api/agents/execute?wait={wait_s}");
        read_completion(self.request(Method::POST, &path, Some(request)).await?).await
    }

    /// Reads a run by its execution id, waiting up to `wait_s` seconds for its end.
    pub async fn agent_run(
        &self,
        execution: &str,
        wait_s: u64,
    ) -> Result<Completion<AgentRun, AgentRun>, ClientError> {
        let path = format!("/api/agents/runs/{execution}?wait={wait_s}");
        read_completion(self.request(Method::GET, &path, NO_BODY).await?).await
    }
}
