//! The lives, as many in a second as the pacer says. Each has a seat while it lasts; whoever takes all seats finds that no
//! life is under way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::caller::Door;
use crate::life::live;
use crate::pacer::Pacer;
use crate::processor::Processors;

const SEATS: u32 = 64;
/// How long the machine is watched before the rate changes.
const ADAPT_EVERY: Duration = Duration::from_secs(2);
/// What could not begin in time is made up for, but no more than this.
const LARGEST_DEBT: Duration = Duration::from_secs(1);
/// One that takes longer has failed.
const LONGEST_LIFE: Duration = Duration::from_secs(120);

#[derive(Clone)]
pub(crate) struct Load {
    shared: Arc<Shared>,
}

struct Shared {
    seats: Arc<Semaphore>,
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
        let seats = Arc::new(Semaphore::new(SEATS as usize));
        Self { shared: Arc::new(Shared { seats, done: AtomicU64::new(0), failures: Mutex::default() }) }
    }

    /// As many at once as there are seats, to their end. What a server makes only when many come at once, such as threads,
    /// is there from then on, and not by chance at some moment after the mark.
    pub(crate) async fn rush(&self, door: &Door) -> Result<()> {
        let mut lives = JoinSet::new();
        for number in 0..u64::from(SEATS) {
            self.begin(&mut lives, door, number).await?;
        }
        lives.join_all().await;
        Ok(())
    }

    /// Never ends by itself. What is under way is given up with it.
    pub(crate) async fn go_on(&self, door: &Door, mut pacer: Pacer) -> Result<()> {
        let mut lives = JoinSet::new();
        let mut next = Instant::now();
        let mut watched = (next, Processors::read()?);
        for number in u64::from(SEATS).. {
            sleep_until(next).await;
            self.begin(&mut lives, door, number).await?;
            while lives.try_join_next().is_some() {}

            let now = Instant::now();
            if now - watched.0 >= ADAPT_EVERY {
                let processors = Processors::read()?;
                pacer.adapt(processors.busy_since(watched.1));
                watched = (now, processors);
            }
            next = next.max(now - LARGEST_DEBT) + Duration::from_secs_f64(1.0 / pacer.rate());
        }
        Ok(())
    }

    /// When there is a seat for it.
    async fn begin(&self, lives: &mut JoinSet<()>, door: &Door, number: u64) -> Result<()> {
        let seat = self.shared.seats.clone().acquire_owned().await.context("nobody takes seats away")?;
        let (shared, door) = (self.shared.clone(), door.clone());
        lives.spawn(async move { shared.one(&door, number, seat).await });
        Ok(())
    }

    /// Lives that have come to their end so far.
    pub(crate) fn done(&self) -> u64 {
        self.shared.done.load(Ordering::Relaxed)
    }

    pub(crate) fn failures(&self) -> Failures {
        self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// No life is under way, and none begins, until what is answered is dropped.
    pub(crate) async fn rest(&self) -> Result<OwnedSemaphorePermit> {
        self.shared.seats.clone().acquire_many_owned(SEATS).await.context("nobody takes seats away")
    }
}

impl Shared {
    async fn one(&self, door: &Door, number: u64, _seat: OwnedSemaphorePermit) {
        let lived = tokio::time::timeout(LONGEST_LIFE, live(door, number)).await;
        let lived = lived.unwrap_or_else(|_| Err(anyhow::anyhow!("it takes too long")));
        self.done.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = lived {
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.number += 1;
            failures.first.get_or_insert(format!("life {number}: {error:#}"));
        }
    }
}
