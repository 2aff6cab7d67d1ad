//! Conformance fixture of the fake: no faults, and a clock moved by the suite.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use async_trait::async_trait;
use pinfold_lifecycle::{Command, ExecutionId, Guards, SandboxId, Spec, Timestamp};
use pinfold_provider::Provider;
use pinfold_provider::conformance::{Fixture, TestCommand};
use pinfold_provider::fake::{Call, CallPlan, FakeProvider, FakeWorld, FaultPlan, NoFaults};

pub(crate) struct FakeFixture {
    /// Wraps the fake provider.
    wrap: Box<Wrap>,
    world: Arc<FakeWorld>,
    clock: Arc<ManualClock>,
    last_id: AtomicU64,
}

type Wrap = dyn Fn(Arc<dyn Provider>) -> Arc<dyn Provider> + Send + Sync;

/// [`NoFaults`] with a clock that can be moved.
#[derive(Default)]
struct ManualClock {
    now_ms: AtomicI64,
}

impl FaultPlan for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now_ms.load(Ordering::Relaxed))
    }

    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        NoFaults.sleep_ms(ms)
    }

    fn plan_call(&self, call: Call) -> CallPlan {
        NoFaults.plan_call(call)
    }
}

impl FakeFixture {
    pub(crate) fn bare() -> Self {
        Self::wrapping(|fake| fake)
    }

    pub(crate) fn wrapping(
        wrap: impl Fn(Arc<dyn Provider>) -> Arc<dyn Provider> + Send + Sync + 'static,
    ) -> Self {
        Self {
            wrap: Box::new(wrap),
            world: Arc::default(),
            clock: Arc::default(),
            last_id: AtomicU64::new(0),
        }
    }

    fn fresh(&self) -> u128 {
        u128::from(self.last_id.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

#[async_trait]
impl Fixture for FakeFixture {
    fn provider(&self) -> Arc<dyn Provider> {
        let fake = FakeProvider::new(self.world.clone(), self.clock.clone(), Guards::default());
        (self.wrap)(Arc::new(fake))
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

    fn command(&self, command_kind: TestCommand) -> Command {
        let argv: &[&str] = match command_kind {
            TestCommand::Succeed => &["true"],
            TestCommand::ExitWith3 => &["exit", "3"],
            TestCommand::RunUntilKilled => &["hang"],
            TestCommand::NotFound => &["no-such-command"],
            TestCommand::ReadUntilClosed => &["cat"],
            TestCommand::HoldTerminal => &["hang"],
        };
        Command {
            argv: argv.iter().map(ToString::to_string).collect(),
            stdin: command_kind == TestCommand::ReadUntilClosed,
            tty: command_kind == TestCommand::HoldTerminal,
            ..Command::default()
        }
    }

    fn in_ms(&self, ms: u64) -> Timestamp {
        self.clock.now().after_ms(ms)
    }

    async fn pass_ms(&self, ms: u64) {
        let later = self.in_ms(ms);
        self.clock.now_ms.store(later.0, Ordering::Relaxed);
    }
}
