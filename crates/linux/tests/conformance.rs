//! The Linux provider held to the promises of every provider, with real sandboxes on this host: by whoever runs
//! the tests, and where that is root by an ordinary user too.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "conformance/ordinary_user.rs"]
mod ordinary_user;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use pinfold_lifecycle::{Command, ExecutionId, SandboxId, Spec, Timestamp};
use pinfold_linux::{LinuxConfig, LinuxProvider, NurseryProgram};
use pinfold_provider::Provider;
use pinfold_provider::conformance::{Deed, Ground};

struct HostGround {
    data: tempfile::TempDir,
    instance: u128,
    last_id: AtomicU64,
}

impl HostGround {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let name = data.path().file_name().unwrap().to_string_lossy().into_owned();
        let instance = name.bytes().fold(0, |sum: u128, byte| (sum << 8) | u128::from(byte));
        Self { data, instance, last_id: AtomicU64::new(0) }
    }

    fn fresh(&self) -> u128 {
        u128::from(self.last_id.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

#[expect(clippy::disallowed_methods, reason = "a test of real sandboxes takes real time")]
fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap())
}

#[async_trait]
impl Ground for HostGround {
    fn provider(&self) -> Arc<dyn Provider> {
        let program = ordinary_user::nursery();
        let config = LinuxConfig {
            data: self.data.path().to_owned(),
            instance: self.instance,
            nursery: NurseryProgram { program, arguments: Vec::new() },
            clock: Arc::new(now),
        };
        Arc::new(LinuxProvider::open(config).unwrap())
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
        };
        Command { argv: argv.iter().map(|word| (*word).to_owned()).collect(), ..Command::default() }
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
