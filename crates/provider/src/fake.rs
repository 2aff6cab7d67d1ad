//! A provider whose bodies are rows in memory. It keeps the promises of a real one, and breaks them as the
//! [`Weather`] says: slow, failing, losing answers, unable to look.

mod process;
mod provider;
mod shared;
mod world;

use std::future::Future;
use std::pin::Pin;

use pinfold_lifecycle::Timestamp;

pub use provider::FakeProvider;
pub use world::{FakeWorld, Physical};

/// What happens to one call, and what time it is.
pub trait Weather: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>>;
    fn forecast(&self, call: Call) -> Forecast;
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
}

/// How one call fares. Each wait is a point where the caller may be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forecast {
    pub before_ms: u64,
    pub halfway_ms: u64,
    pub after_ms: u64,
    pub fault: Option<Fault>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done, and the answer says so.
    Fails,
    /// Half of it is done.
    HalfDone,
    /// It is done, and the answer never comes.
    AnswerLost,
    /// It is done, but whether it is cannot be seen.
    LookFails,
}

/// No wind: everything succeeds at once.
#[derive(Debug, Default)]
pub struct Calm;

impl Weather for Calm {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(std::time::Duration::from_millis(ms)))
    }

    fn forecast(&self, _call: Call) -> Forecast {
        Forecast::default()
    }
}
