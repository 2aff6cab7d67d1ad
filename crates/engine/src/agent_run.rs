//! An agent run: one command in its own sandbox, retried by policy (queue, provision, execute, track, clean
//! up). All state is in the store, so after a crash the next engine continues the run.

use pinfold_lifecycle::{
    Attempt, Cause, ExecutionId, Life, Outcome, Policy, Receipt, ResourceUsage, SandboxId, Timestamp,
};

use crate::{CreateRequest, Engine, RunError, RunRequest, WaitError, WaitOutcome};

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRun {
    /// None: the run has not ended. Written once.
    pub outcome: Option<Outcome>,
    /// All attempts in order, each with its generation, start, outcome and the receipt of its instance. Without
    /// an outcome the last attempt is running or waiting to start.
    pub attempts: Vec<Attempt>,
    /// Why the sandbox ended. None: its last instance is not proven gone.
    pub cause: Option<Cause>,
    /// Proof that the last instance is gone.
    pub receipt: Option<Box<Receipt>>,
    /// Summed over all attempts, as far as measured.
    pub used: ResourceUsage,
}

impl Engine {
    /// Starts a run in one transaction. The sandbox ends with the run. Attempts follow the policy's `recovery`
    /// (default: three). The maximum life covers all attempts together.
    ///
    /// The output of all attempts is one stream: a later attempt continues where the previous one broke off.
    pub async fn run_agent(
        &self,
        request: CreateRequest,
        run: RunRequest,
    ) -> Result<(SandboxId, ExecutionId), RunError> {
        let recovery = Some(request.policy.recovery.unwrap_or_default());
        let policy = Policy { one_shot: true, recovery, ..Policy::clone(&request.policy) };
        self.create_and_execute(CreateRequest { policy: policy.into(), ..request }, run).await
    }

    /// Waits until the run has its outcome and its last instance is proven gone, or until the deadline.
    pub async fn wait_agent_run(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
        until: Timestamp,
    ) -> Result<WaitOutcome<AgentRun>, WaitError> {
        let settled = self.inner.wait_for(sandbox, until, |stored| stored.sandbox.is_settled().then_some(()));
        match settled.await? {
            WaitOutcome::Met(()) => Ok(WaitOutcome::Met(self.agent_run(sandbox, execution).await?)),
            WaitOutcome::DeadlinePassed => Ok(WaitOutcome::DeadlinePassed),
        }
    }

    /// Reads the current state of a run.
    pub async fn agent_run(&self, sandbox: SandboxId, execution: ExecutionId) -> Result<AgentRun, WaitError> {
        // Read the sandbox first: if the run ends between the two reads, the answer lacks a proof instead of
        // claiming one too many.
        let stored = self.inner.readable(sandbox).await?;
        let execution = self.inner.store.execution(execution).await?;
        let execution =
            execution.filter(|known| known.sandbox == sandbox).ok_or(WaitError::Missing)?.execution;
        let outcome = execution.outcome().cloned();
        let (cause, receipt) = match stored.sandbox.life {
            Life::Ended { cause, receipt, .. } => (Some(cause), Some(receipt)),
            Life::Wanted | Life::Ending { .. } => (None, None),
        };
        let mut attempts = execution.attempts;
        if let (Some(last), Some(receipt)) = (attempts.last_mut(), &receipt) {
            last.receipt.get_or_insert_with(|| receipt.clone());
        }
        let used = used_by(&attempts);
        Ok(AgentRun { outcome, attempts, cause, receipt, used })
    }
}

fn used_by(attempts: &[Attempt]) -> ResourceUsage {
    let counted = attempts.iter().filter_map(|attempt| attempt.receipt.as_ref()?.used);
    counted.fold(ResourceUsage::default(), |all, one| ResourceUsage {
        cpu_ms: sum(all.cpu_ms, one.cpu_ms),
        memory_peak_bytes: all.memory_peak_bytes.max(one.memory_peak_bytes),
        io_read_bytes: sum(all.io_read_bytes, one.io_read_bytes),
        io_written_bytes: sum(all.io_written_bytes, one.io_written_bytes),
    })
}

fn sum(all: Option<u64>, one: Option<u64>) -> Option<u64> {
    match (all, one) {
        (Some(all), Some(one)) => Some(all.saturating_add(one)),
        (counted, None) | (None, counted) => counted,
    }
}
