//! One real sandbox for one test. It is stopped when the test ends, however it ends.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pinfold_keeper::log::{Entry, Stream};
use pinfold_lifecycle::{
    Cause, Command, ExecutionId, ExecutionLimits, Generation, Limits, Outcome, Probed, SandboxId, Spec,
    StopOutcome,
};
use pinfold_linux::LinuxProvider;
use pinfold_provider::{Exec, ExecError, InstanceId, Provider, Start, StartPermit};

use crate::config::{config, now};

/// How long anything may take here before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Sandbox {
    pub(crate) provider: Arc<LinuxProvider>,
    pub(crate) body: InstanceId,
    last_execution: AtomicU64,
    pub(crate) data: tempfile::TempDir,
}

pub(crate) struct Granted;

#[async_trait]
impl StartPermit for Granted {
    async fn still_wanted(&self) -> bool {
        true
    }
}

impl Sandbox {
    pub(crate) async fn with(limits: Limits) -> Self {
        Self::of(&Spec { limits, ..Spec::default() }, |provider| provider).await
    }

    /// `equip`: what its provider has besides.
    pub(crate) async fn of(spec: &Spec, equip: impl FnOnce(LinuxProvider) -> LinuxProvider) -> Self {
        let data = tempfile::tempdir().unwrap();
        let provider = Arc::new(equip(LinuxProvider::open(config(data.path())).unwrap()));
        let body = InstanceId { sandbox: SandboxId(1), generation: Generation(1) };
        let sandbox = Self { provider, body, last_execution: AtomicU64::new(0), data };
        let ends_at = now().after_ms(600_000);
        let start = Start { body, spec, ends_at, permit: &Granted, ends_with_caller: false };
        sandbox.provider.start(start).await.unwrap();
        sandbox
    }

    pub(crate) async fn plain() -> Self {
        Self::with(Limits::default()).await
    }

    pub(crate) fn fresh_execution(&self) -> ExecutionId {
        ExecutionId(u128::from(self.last_execution.fetch_add(1, Ordering::Relaxed) + 1))
    }

    pub(crate) async fn exec(&self, command: &Command, limits: ExecutionLimits) -> ExecutionId {
        let execution = self.fresh_execution();
        self.try_exec(execution, command, limits).await.unwrap();
        execution
    }

    pub(crate) async fn try_exec(
        &self,
        execution: ExecutionId,
        command: &Command,
        limits: ExecutionLimits,
    ) -> Result<(), ExecError> {
        self.provider.exec(self.body, Exec { execution, command, limits }).await
    }

    pub(crate) async fn script(&self, script: &str) -> ExecutionId {
        self.exec(&sh(script), ExecutionLimits::default()).await
    }

    pub(crate) async fn outcome(&self, execution: ExecutionId) -> Outcome {
        within("the end of an execution", self.provider.wait(self.body, execution)).await.unwrap()
    }

    /// The cause and exit code of a script.
    pub(crate) async fn end_of(&self, script: &str) -> (Cause, Option<i32>) {
        let execution = self.script(script).await;
        self.how(execution).await
    }

    pub(crate) async fn how(&self, execution: ExecutionId) -> (Cause, Option<i32>) {
        let outcome = self.outcome(execution).await;
        (outcome.cause, outcome.exit_code)
    }

    /// All that was kept of what an execution wrote.
    pub(crate) fn entries(&self, execution: ExecutionId) -> Vec<Entry> {
        let mut reader = self.provider.output_of(self.body.sandbox, execution);
        std::iter::from_fn(|| reader.next().unwrap()).collect()
    }

    pub(crate) fn stdout(&self, execution: ExecutionId) -> String {
        let pieces = self.entries(execution).into_iter().filter_map(|entry| match entry {
            Entry::Piece(piece) if piece.stream == Stream::Stdout => Some(piece.bytes),
            Entry::Piece(_) | Entry::Gap(_) => None,
        });
        String::from_utf8_lossy(&pieces.flatten().collect::<Vec<_>>()).into_owned()
    }

    /// What a script writes until its end.
    pub(crate) async fn says(&self, script: &str) -> String {
        let execution = self.script(script).await;
        self.outcome(execution).await;
        self.stdout(execution)
    }

    pub(crate) async fn until_said(&self, execution: ExecutionId, words: &str) {
        until(words, || async { self.stdout(execution).contains(words) }).await;
    }

    /// Its keeper has outlived all that was tried, and work can be done in it.
    pub(crate) async fn still_works(&self) {
        assert_eq!(self.provider.probe(self.body).await, Probed::Passed);
    }
}

/// On a thread of its own: the test's may be on its way out.
impl Drop for Sandbox {
    fn drop(&mut self) {
        let (provider, body) = (self.provider.clone(), self.body);
        let stop = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(provider.stop(body, 0))
        };
        let stopped = std::thread::spawn(stop).join();
        if !std::thread::panicking() {
            assert!(matches!(stopped, Ok(StopOutcome::Gone(_))), "{stopped:?}");
        }
    }
}

pub(crate) fn sh(script: &str) -> Command {
    Command { argv: ["sh", "-c", script].map(str::to_owned).to_vec(), ..Command::default() }
}

pub(crate) async fn until<F: Future<Output = bool>>(what: &str, met: impl Fn() -> F) {
    within(what, async {
        while !met().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    waited.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain: {what}"))
}
