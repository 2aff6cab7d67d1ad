//! One real sandbox for one test, stopped at its end.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use pinfold_lifecycle::{
    Command, ExecutionId, ExecutionLimits, Generation, Outcome, SandboxId, Spec, StopOutcome,
};
use pinfold_linux::LinuxProvider;
use pinfold_provider::{ExecRequest, Files, InstanceId, Provider, StartRequest};
use pinfold_test_support::linux::{AlwaysWanted, now};

use crate::config::config;

pub(crate) const INSTANCE: InstanceId = InstanceId { sandbox: SandboxId(1), generation: Generation(1) };

pub(crate) struct Fixture {
    pub(crate) provider: LinuxProvider,
    executions: AtomicU64,
    data: tempfile::TempDir,
}

impl Fixture {
    async fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let provider = LinuxProvider::open(config(data.path())).unwrap();
        let fixture = Self { provider, executions: AtomicU64::new(1), data };
        let spec = Spec::default();
        let ends_at = now().after_ms(120_000);
        fixture
            .provider
            .start(StartRequest {
                instance: INSTANCE,
                spec: &spec,
                ends_at,
                permit: &AlwaysWanted,
                ends_with_caller: true,
            })
            .await
            .unwrap();
        fixture
    }

    /// Runs the test, then stops the sandbox and checks that nothing is left, also after a panic.
    pub(crate) fn run<T>(test: impl AsyncFnOnce(&Fixture) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let fixture = runtime.block_on(Self::start());
        let result = catch_unwind(AssertUnwindSafe(|| runtime.block_on(test(&fixture))));
        let stopped = runtime.block_on(fixture.provider.stop(INSTANCE, 0));
        let result = result.unwrap_or_else(|panic| resume_unwind(panic));
        assert!(matches!(stopped, StopOutcome::Gone(_)), "{stopped:?}");
        assert!(std::fs::read_dir(fixture.data.path().join("instances")).unwrap().next().is_none());
        result
    }

    /// Runs a script inside and waits for its end.
    pub(crate) async fn sh(&self, script: &str) -> Outcome {
        let execution = ExecutionId(u128::from(self.executions.fetch_add(1, Ordering::Relaxed)));
        let command = Command { argv: vec!["sh".into(), "-c".into(), script.into()], ..Command::default() };
        let exec = ExecRequest { execution, command: &command, limits: ExecutionLimits::default() };
        self.provider.exec(INSTANCE, exec).await.unwrap();
        self.provider.wait(INSTANCE, execution).await.unwrap()
    }

    pub(crate) async fn read_all(&self, path: &str) -> Vec<u8> {
        let mut content = self.provider.read(INSTANCE, path.as_bytes(), 0, u64::MAX).await.unwrap();
        let mut all = Vec::new();
        while let Some(piece) = content.pieces.next().await.unwrap() {
            all.extend(piece);
        }
        all
    }

    pub(crate) async fn names_in(&self, path: &str) -> Vec<String> {
        let listing = self.provider.list(INSTANCE, path.as_bytes(), 1_000).await.unwrap();
        let mut names: Vec<_> =
            listing.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect();
        names.sort();
        names
    }
}
