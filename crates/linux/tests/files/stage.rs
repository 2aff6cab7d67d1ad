//! One sandbox on this host for one test, ended with it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use pinfold_lifecycle::{
    Command, ExecutionId, ExecutionLimits, Generation, Outcome, SandboxId, Spec, StopOutcome,
};
use pinfold_linux::LinuxProvider;
use pinfold_provider::{Exec, Files, InstanceId, Provider, Start, StartPermit};

use crate::config::{config, now};

pub(crate) const BODY: InstanceId = InstanceId { sandbox: SandboxId(1), generation: Generation(1) };

struct Granted;

#[async_trait]
impl StartPermit for Granted {
    async fn still_wanted(&self) -> bool {
        true
    }
}

pub(crate) struct Stage {
    pub(crate) provider: LinuxProvider,
    executions: AtomicU64,
    data: tempfile::TempDir,
}

impl Stage {
    async fn set() -> Self {
        let data = tempfile::tempdir().unwrap();
        let provider = LinuxProvider::open(config(data.path())).unwrap();
        let stage = Self { provider, executions: AtomicU64::new(1), data };
        let spec = Spec::default();
        let ends_at = now().after_ms(120_000);
        stage
            .provider
            .start(Start { body: BODY, spec: &spec, ends_at, permit: &Granted, ends_with_caller: true })
            .await
            .unwrap();
        stage
    }

    /// The test's own part, and afterwards the proof that nothing is left, whatever became of it.
    pub(crate) fn play<T>(part: impl AsyncFnOnce(&Stage) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stage = runtime.block_on(Self::set());
        let played = catch_unwind(AssertUnwindSafe(|| runtime.block_on(part(&stage))));
        let stopped = runtime.block_on(stage.provider.stop(BODY, 0));
        let played = played.unwrap_or_else(|panic| resume_unwind(panic));
        assert!(matches!(stopped, StopOutcome::Gone(_)), "{stopped:?}");
        assert!(std::fs::read_dir(stage.data.path().join("bodies")).unwrap().next().is_none());
        played
    }

    /// Lets code inside do something, and waits for it.
    pub(crate) async fn inside(&self, script: &str) -> Outcome {
        let execution = ExecutionId(u128::from(self.executions.fetch_add(1, Ordering::Relaxed)));
        let command = Command { argv: vec!["sh".into(), "-c".into(), script.into()], ..Command::default() };
        let exec = Exec { execution, command: &command, limits: ExecutionLimits::default() };
        self.provider.exec(BODY, exec).await.unwrap();
        self.provider.wait(BODY, execution).await.unwrap()
    }

    pub(crate) async fn read_all(&self, path: &str) -> Vec<u8> {
        let mut content = self.provider.read(BODY, path.as_bytes(), 0, u64::MAX).await.unwrap();
        let mut all = Vec::new();
        while let Some(piece) = content.pieces.next().await.unwrap() {
            all.extend(piece);
        }
        all
    }

    pub(crate) async fn names_in(&self, path: &str) -> Vec<String> {
        let listing = self.provider.list(BODY, path.as_bytes(), 1_000).await.unwrap();
        let mut names: Vec<_> =
            listing.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect();
        names.sort();
        names
    }
}
