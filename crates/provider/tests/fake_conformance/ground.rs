//! The fake in calm weather, on a day whose hours pass when somebody says so.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use async_trait::async_trait;
use pinfold_lifecycle::{Command, ExecutionId, Guards, SandboxId, Spec, Timestamp};
use pinfold_provider::Provider;
use pinfold_provider::conformance::{Deed, Ground};
use pinfold_provider::fake::{Call, Calm, FakeProvider, FakeWorld, Forecast, Weather};

pub(crate) struct FakeGround {
    /// What stands between the suite and the fake.
    front: Box<Front>,
    world: Arc<FakeWorld>,
    day: Arc<CalmDay>,
    last_id: AtomicU64,
}

type Front = dyn Fn(Arc<dyn Provider>) -> Arc<dyn Provider> + Send + Sync;

/// [`Calm`], with a clock that can be moved.
#[derive(Default)]
struct CalmDay {
    now_ms: AtomicI64,
}

impl Weather for CalmDay {
    fn now(&self) -> Timestamp {
        Timestamp(self.now_ms.load(Ordering::Relaxed))
    }

    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Calm.sleep_ms(ms)
    }

    fn forecast(&self, call: Call) -> Forecast {
        Calm.forecast(call)
    }
}

impl FakeGround {
    pub(crate) fn bare() -> Self {
        Self::behind(|fake| fake)
    }

    pub(crate) fn behind(
        front: impl Fn(Arc<dyn Provider>) -> Arc<dyn Provider> + Send + Sync + 'static,
    ) -> Self {
        Self {
            front: Box::new(front),
            world: Arc::default(),
            day: Arc::default(),
            last_id: AtomicU64::new(0),
        }
    }

    fn fresh(&self) -> u128 {
        u128::from(self.last_id.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

#[async_trait]
impl Ground for FakeGround {
    fn provider(&self) -> Arc<dyn Provider> {
        let fake = FakeProvider::new(self.world.clone(), self.day.clone(), Guards::default());
        (self.front)(Arc::new(fake))
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
            Deed::ExitWith3 => &["exit", "3"],
            Deed::RunUntilKilled => &["hang"],
            Deed::NotFound => &["no-such-command"],
            Deed::ReadUntilClosed => &["cat"],
            Deed::HoldTerminal => &["hang"],
        };
        Command {
            argv: argv.iter().map(ToString::to_string).collect(),
            stdin: deed == Deed::ReadUntilClosed,
            tty: deed == Deed::HoldTerminal,
            ..Command::default()
        }
    }

    fn in_ms(&self, ms: u64) -> Timestamp {
        self.day.now().after_ms(ms)
    }

    async fn pass_ms(&self, ms: u64) {
        let later = self.in_ms(ms);
        self.day.now_ms.store(later.0, Ordering::Relaxed);
    }
}
