//! `run`: one command in a sandbox of its own, which ends with the command or when the client disconnects.

use std::sync::Arc;

use pinfold_api::{self as api, OutputEvent};
use pinfold_engine::{CreateRequest, RunRequest};
use pinfold_lifecycle::{Cause, ExecutionId, ExecutionKind, Policy, SandboxId};
use pinfold_store::Seq;
use tokio::sync::mpsc;

use super::executions::{StartedExecution, check, command, limits};
use super::output::{BUFFERED, StreamEnd};
use super::{CreateOptions, Failure, Service};

/// A run that is bound to its caller.
pub struct AttachedRun {
    pub sandbox: SandboxId,
    pub execution: ExecutionId,
    /// Dropping the receiver stops the sandbox.
    pub events: mpsc::Receiver<OutputEvent>,
}

impl Service {
    /// The sandbox also ends with this process: its keeper stops it when the process is gone. So it outlives neither
    /// the client nor the server.
    pub async fn run(
        self: &Arc<Self>,
        request: api::RunRequest,
        options: CreateOptions<'_>,
    ) -> Result<AttachedRun, Failure> {
        let api::RunRequest { sandbox: create, exec } = request;
        check(&exec)?;
        let decided = self.decide(&create, options)?;
        let policy = Policy::clone(&decided.policy);
        let policy = Policy { one_shot: true, ends_with_owner: true, grace_ms: 0, ..policy };
        let limits = limits(&exec, &policy)?;
        let run = RunRequest { command: command(&exec), kind: ExecutionKind::Run, limits };
        let decided = CreateRequest { policy: policy.into(), ..decided };
        let created = self.host.engine.create_and_execute(decided, run).await;
        let (sandbox, execution) = created.inspect_err(|error| self.count_refused_run(error))?;
        if exec.stdin.is_some() {
            let (service, started) =
                (self.clone(), StartedExecution { sandbox, execution, since: Seq::default() });
            tokio::spawn(async move { service.write_initial_stdin(started, &exec).await });
        }
        let (sender, events) = mpsc::channel(BUFFERED);
        let service = self.clone();
        tokio::spawn(async move { service.stream_and_stop(sandbox, execution, &sender).await });
        Ok(AttachedRun { sandbox, execution, events })
    }

    async fn stream_and_stop(
        &self,
        sandbox: SandboxId,
        execution: ExecutionId,
        reader: &mpsc::Sender<OutputEvent>,
    ) {
        match self.stream_output(sandbox, execution, 0, reader).await {
            StreamEnd::Complete => {}
            StreamEnd::ReaderGone | StreamEnd::Failed => {
                if let Err(error) = self.host.engine.stop(sandbox, Cause::CallerGone, Some(0), 0).await {
                    tracing::warn!(%sandbox, %error, "could not stop a sandbox whose caller is gone");
                }
            }
        }
    }
}
