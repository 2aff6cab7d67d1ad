//! One command in a sandbox of its own, tried again where that can help: queue, provision, execute, track, clean up.
//! Nothing of it is in this process's memory: after a crash the next engine goes on, and whoever asks is told.

use pinfold_lifecycle::{
    Attempt, Cause, ExecutionId, Life, Outcome, Policy, Receipt, SandboxId, Timestamp, Used,
};

use crate::{CreateAsk, Engine, RunAsk, RunError, WaitError, Waited};

/// What has become of a run so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRun {
    /// None: it has none yet. It is written once.
    pub outcome: Option<Outcome>,
    /// Every try, in order: its generation, when its process started, how it ended, and the proof that its body is gone.
    /// The last one goes on, or waits for its start, as long as there is no outcome.
    pub attempts: Vec<Attempt>,
    /// Why the sandbox has ended. None: its last body is not proven gone.
    pub cause: Option<Cause>,
    /// The proof that the last body is gone.
    pub receipt: Option<Box<Receipt>>,
    /// By all tries together, as far as it was counted.
    pub used: Used,
}

impl Engine {
    /// Asks for a run, in one transaction. Its sandbox ends with it, and is tried as its policy's `recovery` says; where
    /// that says nothing, three times. Its maximum life is that of all tries together.
    ///
    /// The output of all tries is one, in order: that of a later try goes on where the earlier one broke off.
    pub async fn run_agent(&self, ask: CreateAsk, run: RunAsk) -> Result<(SandboxId, ExecutionId), RunError> {
        let recovery = Some(ask.policy.recovery.unwrap_or_default());
        let policy = Policy { one_shot: true, recovery, ..ask.policy };
        self.create_and_execute(CreateAsk { policy, ..ask }, run).await
    }

    /// Waits until a run has its outcome and its last body is proven gone, or until the deadline.
    pub async fn wait_agent_run(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
        until: Timestamp,
    ) -> Result<Waited<AgentRun>, WaitError> {
        let settled = self.inner.wait_for(sandbox, until, |stored| stored.sandbox.is_settled().then_some(()));
        match settled.await? {
            Waited::Met(()) => Ok(Waited::Met(self.agent_run(sandbox, execution).await?)),
            Waited::DeadlinePassed => Ok(Waited::DeadlinePassed),
        }
    }

    /// A run as it stands.
    pub async fn agent_run(&self, sandbox: SandboxId, execution: ExecutionId) -> Result<AgentRun, WaitError> {
        // The sandbox first: what ends in between is then told with less proof than there is, not with more.
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

fn used_by(attempts: &[Attempt]) -> Used {
    let counted = attempts.iter().filter_map(|attempt| attempt.receipt.as_ref()?.used);
    counted.fold(Used::default(), |all, one| Used {
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
