//! A fake provider with instances in memory. It passes the conformance suite, and injects delays and faults as
//! a [`FaultPlan`] says.
//!
//! Its executions are run by a small shell, without threads: each call first runs all processes up to the plan's time.

mod file_tree;
mod files;
mod inspect;
mod output;
mod process;
mod provider;
mod shared;
mod shell;
mod world;

use std::future::Future;
use std::pin::Pin;

use pinfold_lifecycle::Timestamp;

pub use provider::FakeProvider;
pub use world::{FakeWorld, PhysicalInstance};

/// Decides delays and faults of provider calls, and provides the time.
pub trait FaultPlan: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>>;
    fn plan_call(&self, call: Call) -> CallPlan;

    /// Poll interval of a call that waits.
    fn poll_ms(&self) -> u64 {
        250
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Discover,
    Start,
    Observe,
    Probe,
    Ping,
    Exec,
    Kill,
    Stop,
    KeepAlive,
    /// Any file operation.
    Files,
}

/// Delays and fault of one call. The caller may be dropped at each delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallPlan {
    pub before_ms: u64,
    pub halfway_ms: u64,
    pub after_ms: u64,
    pub fault: Option<Fault>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Does nothing and reports failure.
    Fails,
    /// Does half of the operation.
    HalfDone,
    /// Does the operation and never answers.
    AnswerLost,
    /// Does the operation but cannot observe the result.
    ObserveFails,
}

/// No delays and no faults.
#[derive(Debug, Default)]
pub struct NoFaults;

impl FaultPlan for NoFaults {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(std::time::Duration::from_millis(ms)))
    }

    fn plan_call(&self, _call: Call) -> CallPlan {
        CallPlan::default()
    }
}
