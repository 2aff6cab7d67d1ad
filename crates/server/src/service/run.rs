//! One command in a sandbox of its own, which ends with it and with whoever waits for it.

use std::sync::Arc;

use pinfold_api::{OutputEvent, RunRequest};
use pinfold_engine::{CreateAsk, RunAsk};
use pinfold_lifecycle::{Cause, ExecutionId, ExecutionKind, Policy, SandboxId, Spec};
use pinfold_store::Seq;
use tokio::sync::mpsc;

use super::executions::{Started, check, command, limits};
use super::following::{AHEAD, FollowEnd};
use super::{Asking, Failure, Service};

/// A run and the one who waits for it.
pub struct Attached {
    pub sandbox: SandboxId,
    pub execution: ExecutionId,
    /// Whoever lets go of them lets go of the sandbox.
    pub events: mpsc::Receiver<OutputEvent>,
}

impl Service {
    /// The sandbox is this process's own too: its keeper ends it when the process is gone. So it outlives neither who
    /// asked nor who was asked.
    pub async fn run(self: &Arc<Self>, request: RunRequest, asking: Asking<'_>) -> Result<Attached, Failure> {
        let RunRequest { sandbox: wish, exec } = request;
        check(&exec)?;
        let (spec, policy) = self.ask(&wish)?;
        let spec = Spec { asked_by: asking.asker(), ..spec };
        let policy = Policy { one_shot: true, ends_with_owner: true, grace_ms: 0, ..policy };
        let limits = limits(&exec, &policy)?;
        let run = RunAsk { command: command(&exec), kind: ExecutionKind::Run, limits };
        let ask = CreateAsk { spec, policy, key: None, queue: asking.queue };
        let created = self.host.engine.create_and_execute(ask, run).await;
        let (sandbox, execution) = created.inspect_err(|error| self.note_refused_run(error))?;
        if exec.stdin.is_some() {
            let (service, started) = (self.clone(), Started { sandbox, execution, since: Seq::default() });
            tokio::spawn(async move { service.feed_first(started, &exec).await });
        }
        let (sender, events) = mpsc::channel(AHEAD);
        let service = self.clone();
        tokio::spawn(async move { service.attend(sandbox, execution, &sender).await });
        Ok(Attached { sandbox, execution, events })
    }

    async fn attend(&self, sandbox: SandboxId, execution: ExecutionId, reader: &mpsc::Sender<OutputEvent>) {
        match self.pump(sandbox, execution, 0, reader).await {
            FollowEnd::Told => {}
            FollowEnd::ReaderGone | FollowEnd::Failed => {
                if let Err(error) = self.host.engine.stop(sandbox, Cause::CallerGone, true, 0).await {
                    tracing::warn!(%sandbox, %error, "could not end a sandbox whose caller is gone");
                }
            }
        }
    }
}
