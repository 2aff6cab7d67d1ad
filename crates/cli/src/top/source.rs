//! The data source of the screen.

use std::time::Duration;

use async_trait::async_trait;
use pinfold_api::{Cause, Finding, Resources, SandboxSummary, State};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::log::Log;
use crate::backend::{Backend, SandboxQuery};
use crate::json_output::wire_name;

/// One row of the screen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) status: State,
    pub(super) cause: Option<Cause>,
    pub(super) agent_type: Option<String>,
    /// Percent of one core.
    pub(super) cpu_percent: Option<f64>,
    pub(super) memory_mb: Option<f64>,
    pub(super) age_ms: Option<u64>,
    pub(super) flags: Vec<String>,
}

#[async_trait]
pub(super) trait Source: Send + Sync {
    /// Live sandboxes in order of creation, with their current usage.
    async fn sandboxes(&self) -> anyhow::Result<Vec<Row>>;

    /// Stops a sandbox and returns a message with the result.
    async fn stop(&self, id: &str) -> anyhow::Result<String>;

    /// Appends new output to the log.
    async fn read_more(&self, id: &str, log: &mut Log) -> anyhow::Result<()>;
}

/// Maximum number of sandboxes listed.
const MAX_LISTED: usize = 2_000;
/// Maximum number measured at each refresh through a server, to leave request rate for other users of the token.
const MAX_MEASURED_REMOTELY: usize = 500;
/// Measurements in parallel.
const CONCURRENT_MEASUREMENTS: usize = 64;
/// Timeout for reading an instance's usage.
const MEASURE_TIMEOUT: Duration = Duration::from_secs(1);
const STOP_MS: u64 = 30_000;
/// Number of executions of one sandbox whose output is shown: the latest.
const MAX_EXECUTIONS_READ: usize = 5;

#[async_trait]
impl Source for Backend {
    async fn sandboxes(&self) -> anyhow::Result<Vec<Row>> {
        let mut found = self.list(&SandboxQuery::default()).await?;
        found.truncate(MAX_LISTED);
        let most = match self {
            Self::Server(_) => MAX_MEASURED_REMOTELY,
            Self::Local(_) => MAX_LISTED,
        };
        let permits = Semaphore::new(CONCURRENT_MEASUREMENTS);
        let measured = found.iter().take(most).map(|it| measure(self, &permits, it));
        let measured = futures_util::future::join_all(measured).await;
        let measured = measured.into_iter().chain(std::iter::repeat_with(|| None));
        Ok(found.into_iter().zip(measured).map(|(it, used)| row(it, used)).collect())
    }

    async fn stop(&self, id: &str) -> anyhow::Result<String> {
        match Self::stop(self, id, None, STOP_MS).await? {
            Some(receipt) => {
                let absent = receipt.checks.iter().filter(|check| check.result == Finding::Absent).count();
                let (cause, all) = (wire_name(&receipt.cause), receipt.checks.len());
                Ok(format!("{id} is gone: {cause}; {absent} of {all} checks found nothing left"))
            }
            None => Ok(format!("{id} is being stopped; it is not proven gone yet")),
        }
    }

    async fn read_more(&self, id: &str, log: &mut Log) -> anyhow::Result<()> {
        let executions = self.executions(id).await?;
        let latest = executions.len().saturating_sub(MAX_EXECUTIONS_READ);
        for execution in &executions[latest..] {
            let stream = log.begin(&execution.execution_id, &execution.command);
            while !log.is_complete(stream) {
                let page = self.output(&execution.execution_id, log.after(stream)).await?;
                let was_empty = page.events.is_empty();
                log.add(stream, &page);
                if was_empty {
                    break;
                }
            }
        }
        Ok(())
    }
}

async fn measure(backend: &Backend, permits: &Semaphore, it: &SandboxSummary) -> Option<Resources> {
    let is_alive = match it.status {
        State::Ready | State::Running | State::Unhealthy | State::Unknown => true,
        State::Provisioning
        | State::Terminating
        | State::Quarantined
        | State::Completed
        | State::Failed
        | State::Terminated => false,
    };
    if !is_alive {
        return None;
    }
    let _permit = permits.acquire().await.ok()?;
    tokio::time::timeout(MEASURE_TIMEOUT, backend.resources(&it.id)).await.ok()?.ok()
}

fn row(it: SandboxSummary, used: Option<Resources>) -> Row {
    let minutes = it.age_minutes.map(|minutes| minutes * 60_000);
    Row {
        id: it.id,
        name: it.name,
        status: it.status,
        cause: it.cause,
        agent_type: it.agent_type,
        cpu_percent: used.as_ref().and_then(|used| used.cpu_percent),
        memory_mb: used.as_ref().and_then(|used| used.memory_mb),
        age_ms: used.map(|used| used.duration_ms).or(minutes),
        flags: it.flags,
    }
}
