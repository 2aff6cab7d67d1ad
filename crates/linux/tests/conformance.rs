//! The Linux provider held to the promises of every provider, with real sandboxes on this host: by whoever runs
//! the tests, and where that is root by an ordinary user too.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "ground/config.rs"]
mod config;
#[path = "conformance/ordinary_user.rs"]
mod ordinary_user;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use config::{config, now};
use pinfold_lifecycle::{Command, ExecutionId, SandboxId, Spec, Timestamp};
use pinfold_linux::LinuxProvider;
use pinfold_provider::conformance::{Deed, Ground};
use pinfold_provider::{Discovered, Provider};

struct HostGround {
    data: tempfile::TempDir,
    last_id: AtomicU64,
}

impl HostGround {
    fn new() -> Self {
        Self { data: tempfile::tempdir().unwrap(), last_id: AtomicU64::new(0) }
    }

    fn fresh(&self) -> u128 {
        u128::from(self.last_id.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// A promise that was kept leaves no body. What is left all the same is cleared away, and said.
impl Drop for HostGround {
    fn drop(&mut self) {
        let provider = LinuxProvider::open(config(self.data.path())).unwrap();
        let end = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let Discovered { found, .. } = provider.discover().await.unwrap();
                for left in &found {
                    provider.stop(left.body, 0).await;
                }
                found
            })
        };
        let left = std::thread::spawn(end).join().unwrap();
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        assert!(left.is_empty() || std::thread::panicking(), "{test} has left {left:?}");
    }
}

#[async_trait]
impl Ground for HostGround {
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

    fn command(&self, deed: Deed) -> Command {
        let argv: &[&str] = match deed {
            Deed::Succeed => &["true"],
            Deed::ExitWith3 => &["sh", "-c", "exit 3"],
            Deed::RunUntilKilled => &["sleep", "1000"],
            Deed::NotFound => &["no-such-program"],
            Deed::ReadUntilClosed => &["cat"],
            Deed::HoldTerminal => &["sleep", "1000"],
        };
        Command {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            stdin: deed == Deed::ReadUntilClosed,
            tty: deed == Deed::HoldTerminal,
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

pinfold_provider::promises!(tests: HostGround::new());

mod as_an_ordinary_user {
    pinfold_provider::promises!(each: crate::ordinary_user::keep);
}
