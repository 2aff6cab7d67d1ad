//! Where the screen gets what it shows.

use std::time::Duration;

use async_trait::async_trait;
use pinfold_api::{Cause, Finding, Resources, SandboxSummary, State};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::log::Log;
use crate::documents::word;
use crate::plane::{Plane, Wanted};

/// One sandbox as the screen shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) status: State,
    pub(super) cause: Option<Cause>,
    pub(super) agent_type: Option<String>,
    /// Of one core.
    pub(super) cpu_percent: Option<f64>,
    pub(super) memory_mb: Option<f64>,
    pub(super) age_ms: Option<u64>,
    pub(super) flags: Vec<String>,
}

#[async_trait]
pub(super) trait Source: Send + Sync {
    /// What has not ended, in the order of its making, and what it uses now.
    async fn sandboxes(&self) -> anyhow::Result<Vec<Row>>;

    /// Ends one, and says what came of it.
    async fn stop(&self, id: &str) -> anyhow::Result<String>;

    /// Adds to the log what was written since.
    async fn read_on(&self, id: &str, log: &mut Log) -> anyhow::Result<()>;
}

/// Listed in all.
const MOST: usize = 2_000;
/// Measured at each look through a server, so that others with the same token get their turn.
const MEASURED_REMOTELY: usize = 500;
/// Measured at the same time.
const AT_A_TIME: usize = 64;
/// How long a body is asked what it uses before its row goes without it.
const ASK_USAGE: Duration = Duration::from_secs(1);
const STOP_MS: u64 = 30_000;
/// Of one sandbox, the latest.
const EXECUTIONS_READ: usize = 5;

#[async_trait]
impl Source for Plane {
    async fn sandboxes(&self) -> anyhow::Result<Vec<Row>> {
        let mut found = self.list(&Wanted::default()).await?;
        found.truncate(MOST);
        let most = match self {
            Self::Server(_) => MEASURED_REMOTELY,
            Self::Here(_) => MOST,
        };
        let places = Semaphore::new(AT_A_TIME);
        let measured = found.iter().take(most).map(|it| measure(self, &places, it));
        let measured = futures_util::future::join_all(measured).await;
        let measured = measured.into_iter().chain(std::iter::repeat_with(|| None));
        Ok(found.into_iter().zip(measured).map(|(it, used)| row(it, used)).collect())
    }

    async fn stop(&self, id: &str) -> anyhow::Result<String> {
        match Self::stop(self, id, false, STOP_MS).await? {
            Some(receipt) => {
                let absent = receipt.checks.iter().filter(|check| check.result == Finding::Absent).count();
                let (cause, all) = (word(&receipt.cause), receipt.checks.len());
                Ok(format!("{id} is gone: {cause}; {absent} of {all} kinds of things looked for are absent"))
            }
            None => Ok(format!("{id} is being stopped; it is not proven gone yet")),
        }
    }

    async fn read_on(&self, id: &str, log: &mut Log) -> anyhow::Result<()> {
        let executions = self.executions(id).await?;
        let latest = executions.len().saturating_sub(EXECUTIONS_READ);
        for execution in &executions[latest..] {
            let place = log.begin(&execution.execution_id, &execution.command);
            while !log.is_over(place) {
                let page = self.output(&execution.execution_id, log.after(place)).await?;
                let was_empty = page.events.is_empty();
                log.add(place, &page);
                if was_empty {
                    break;
                }
            }
        }
        Ok(())
    }
}

async fn measure(plane: &Plane, places: &Semaphore, it: &SandboxSummary) -> Option<Resources> {
    let has_body = match it.status {
        State::Ready | State::Running | State::Unhealthy | State::Unknown => true,
        State::Provisioning
        | State::Terminating
        | State::Quarantined
        | State::Completed
        | State::Failed
        | State::Terminated => false,
    };
    if !has_body {
        return None;
    }
    let _place = places.acquire().await.ok()?;
    tokio::time::timeout(ASK_USAGE, plane.resources(&it.id)).await.ok()?.ok()
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
