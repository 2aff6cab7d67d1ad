//! What is done behind the server's back: bodies that no record speaks of, and records whose body is gone.

use async_trait::async_trait;
use pinfold_lifecycle::{Command, ExecutionId, ExecutionLimits, Generation, Limits, SandboxId, Spec};
use pinfold_provider::{Exec, InstanceId, Provider, Start, StartPermit};

use super::Ground;

struct Granted;

#[async_trait]
impl StartPermit for Granted {
    async fn still_wanted(&self) -> bool {
        true
    }
}

impl Ground {
    /// A body with the server's mark that no record speaks of, in which a script runs.
    pub(crate) async fn orphan(&self, script: &str) -> String {
        let host = self.service.host();
        let sandbox = {
            let mut orphans = self.orphans.lock().unwrap();
            let sandbox = SandboxId(77 + orphans.len() as u128);
            orphans.insert(sandbox);
            sandbox
        };
        let body = InstanceId { sandbox, generation: Generation(1) };
        let limits = Limits { memory_mb: Some(64), ..Limits::default() };
        let spec = Spec { limits, ..Spec::default() };
        let ends_at = host.clock.now().after_ms(120_000);
        let start = Start { body, spec: &spec, ends_at, ends_with_caller: false, permit: &Granted };
        host.provider.start(start).await.unwrap();
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        let command = Command { argv, ..Command::default() };
        let limits = ExecutionLimits::default();
        let exec = Exec { execution: ExecutionId(1), command: &command, limits };
        host.provider.exec(body, exec).await.unwrap();
        body.sandbox.to_string()
    }

    /// Removes the first body of a sandbox behind the server's back.
    pub(crate) async fn take_away(&self, sandbox: &str) {
        let body = InstanceId { sandbox: sandbox.parse().unwrap(), generation: Generation(1) };
        self.service.host().provider.stop(body, 0).await;
    }
}
