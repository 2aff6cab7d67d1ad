//! Runs cycles at the rate that the pacer sets. Each holds a permit; with all permits taken, no cycle is running.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::connection::ServerAddress;
use crate::cpu_time::Processors;
use crate::cycle::run;
use crate::pacer::Pacer;

const MAX_CONCURRENT: u32 = 64;
/// How often the rate is adapted.
const ADAPT_EVERY: Duration = Duration::from_secs(2);
/// Late cycles are made up for, up to this much.
const MAX_CATCH_UP: Duration = Duration::from_secs(1);
/// A slower cycle has failed.
const CYCLE_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Clone)]
pub(crate) struct Load {
    shared: Arc<Shared>,
}

struct Shared {
    permits: Arc<Semaphore>,
    done: AtomicU64,
    failures: Mutex<Failures>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Failures {
    pub(crate) number: u64,
    pub(crate) first: Option<String>,
}

impl Load {
    pub(crate) fn new() -> Self {
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT as usize));
        Self { shared: Arc::new(Shared { permits, done: AtomicU64::new(0), failures: Mutex::default() }) }
    }

    /// Runs as many cycles at once as there are permits. What a server allocates only under concurrency, such as
    /// threads, then exists before the baseline.
    pub(crate) async fn warm_up(&self, server: &ServerAddress) -> Result<()> {
        let mut cycles = JoinSet::new();
        for number in 0..u64::from(MAX_CONCURRENT) {
            self.begin(&mut cycles, server, number).await?;
        }
        cycles.join_all().await;
        Ok(())
    }

    /// Runs until it is dropped, together with the running cycles.
    pub(crate) async fn run(&self, server: &ServerAddress, mut pacer: Pacer) -> Result<()> {
        let mut cycles = JoinSet::new();
        let mut next = Instant::now();
        let mut watched = (next, Processors::read()?);
        for number in u64::from(MAX_CONCURRENT).. {
            sleep_until(next).await;
            self.begin(&mut cycles, server, number).await?;
            while cycles.try_join_next().is_some() {}

            let now = Instant::now();
            if now - watched.0 >= ADAPT_EVERY {
                let processors = Processors::read()?;
                pacer.adapt(processors.busy_since(watched.1));
                watched = (now, processors);
            }
            next = next.max(now - MAX_CATCH_UP) + Duration::from_secs_f64(1.0 / pacer.rate());
        }
        Ok(())
    }

    /// Starts a cycle as soon as a permit is free.
    async fn begin(&self, cycles: &mut JoinSet<()>, server: &ServerAddress, number: u64) -> Result<()> {
        let permit =
            self.shared.permits.clone().acquire_owned().await.context("the semaphore is never closed")?;
        let (shared, server) = (self.shared.clone(), server.clone());
        cycles.spawn(async move { shared.run_cycle(&server, number, permit).await });
        Ok(())
    }

    /// Completed cycles.
    pub(crate) fn done(&self) -> u64 {
        self.shared.done.load(Ordering::Relaxed)
    }

    pub(crate) fn failures(&self) -> Failures {
        self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// No cycle runs or starts until the permit is dropped.
    pub(crate) async fn pause(&self) -> Result<OwnedSemaphorePermit> {
        self.shared
            .permits
            .clone()
            .acquire_many_owned(MAX_CONCURRENT)
            .await
            .context("the semaphore is never closed")
    }
}

impl Shared {
    async fn run_cycle(&self, server: &ServerAddress, number: u64, _permit: OwnedSemaphorePermit) {
        let result = tokio::time::timeout(CYCLE_TIMEOUT, run(server, number)).await;
        let result = result.unwrap_or_else(|_| Err(anyhow::anyhow!("timed out")));
        self.done.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = result {
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.number += 1;
            failures.first.get_or_insert(format!("cycle {number}: {error:#}"));
        }
    }
}
