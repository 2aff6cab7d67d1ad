//! The provider conformance suite against the Linux provider, with real sandboxes: as the current user and, if that
//! is root, as an unprivileged user too.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "fixture/config.rs"]
mod config;
#[path = "conformance/unprivileged_user.rs"]
mod unprivileged_user;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use config::config;
use pinfold_lifecycle::{Command, ExecutionId, SandboxId, Spec, Timestamp};
use pinfold_linux::LinuxProvider;
use pinfold_provider::conformance::{Fixture, TestCommand};
use pinfold_provider::{Discovered, Provider};
use pinfold_test_support::linux::now;

struct HostFixture {
    data: tempfile::TempDir,
    last_id: AtomicU64,
}

impl HostFixture {
    fn new() -> Self {
        Self { data: tempfile::tempdir().unwrap(), last_id: AtomicU64::new(0) }
    }

    fn fresh(&self) -> u128 {
        u128::from(self.last_id.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// A passing test leaves no instance. Leftovers are removed, and the test fails.
impl Drop for HostFixture {
    fn drop(&mut self) {
        let provider = LinuxProvider::open(config(self.data.path())).unwrap();
        let end = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let Discovered { found, .. } = provider.discover().await.unwrap();
                for left in &found {
                    provider.stop(left.instance, 0).await;
                }
                found
            })
        };
        let left = std::thread::spawn(end).join().unwrap();
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        assert!(left.is_empty() || std::thread::panicking(), "{test} left {left:?}");
    }
}

#[async_trait]
impl Fixture for HostFixture {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(LinuxProvider::open(config(self.data.path())).unwrap())
    }

    fn fresh_sandbox(&self) -> SandboxId {
        SandboxId(self.fresh())
    }

    fn fresh_execution(&self) -> ExecutionId {
        ExecutionId(self.fresh())
    }

    fn spec(&self) -> Spec {
        Spec::default()
    }

    fn command(&self, test_command: TestCommand) -> Command {
        let argv: &[&str] = match test_command {
            TestCommand::Succeed => &["true"],
            TestCommand::ExitWith3 => &["sh", "-c", "exit 3"],
            TestCommand::RunUntilKilled => &["sleep", "1000"],
            TestCommand::NotFound => &["no-such-program"],
            TestCommand::ReadUntilClosed => &["cat"],
            TestCommand::HoldTerminal => &["sleep", "1000"],
        };
        Command {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            stdin: test_command == TestCommand::ReadUntilClosed,
            tty: test_command == TestCommand::HoldTerminal,
            ..Command::default()
        }
    }

    fn in_ms(&self, ms: u64) -> Timestamp {
        now().after_ms(ms)
    }

    async fn pass_ms(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

pinfold_provider::conformance_tests!(tests: HostFixture::new());

mod as_unprivileged_user {
    pinfold_provider::conformance_tests!(each: crate::unprivileged_user::run_as_unprivileged_user);
}
