//! Runs of agents.

use hyper::Method;
use pinfold_api::{AgentRequest, AgentRun};

use crate::client::{NOTHING, answered};
use crate::{Answered, Client, ClientError};

impl Client {
    /// Asks for a run and waits so long until it is over.
    pub async fn run_agent(
        &self,
        request: &AgentRequest,
        wait_s: u64,
    ) -> Result<Answered<AgentRun, AgentRun>, ClientError> {
        let path = format!("/api/agents/execute?wait={wait_s}");
        answered(self.ask(Method::POST, &path, Some(request)).await?).await
    }

    /// A run by the id of its execution, once it is over or after so long.
    pub async fn agent_run(
        &self,
        execution: &str,
        wait_s: u64,
    ) -> Result<Answered<AgentRun, AgentRun>, ClientError> {
        let path = format!("/api/agents/runs/{execution}?wait={wait_s}");
        answered(self.ask(Method::GET, &path, NOTHING).await?).await
    }
}
