//! What a server does all the time so that figures are there: it counts, looks how things stand once in a minute, and
//! thins out and archives what is old. Several servers on a store do it by turns, without knowing of each other.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::Service;
use crate::housekeeping::often_enough;

/// Soon, since what is forgotten before it is counted has lost its type of agent.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// A commit for pings alone.
const SEEN_EVERY: Duration = Duration::from_secs(10);
const SAMPLE_EVERY: Duration = Duration::from_secs(60);
const THIN_OUT_EVERY: Duration = Duration::from_secs(15 * 60);

/// Never ends by itself.
pub(crate) async fn keep_measured(service: Arc<Service>, keep: Duration) {
    // Side by side: an archive may be slow to answer, and what happens is counted all the same.
    tokio::join!(keep_counted(&service), keep_thin(&service, keep));
}

async fn keep_counted(service: &Service) {
    let (mut counting, mut seeing, mut sampling) =
        (every(COUNT_EVERY), every(SEEN_EVERY), every(SAMPLE_EVERY));
    loop {
        tokio::select! {
            _ = counting.tick() => told(service.count_history()).await,
            _ = seeing.tick() => told(service.count_what_was_seen()).await,
            _ = sampling.tick() => told(service.sample()).await,
        }
    }
}

async fn keep_thin(service: &Service, keep: Duration) {
    let mut thinning = every(often_enough(keep, THIN_OUT_EVERY));
    loop {
        thinning.tick().await;
        told(service.thin_out(keep)).await;
    }
}

/// The last of what this process has seen.
pub(crate) async fn finish(service: &Service) {
    told(service.catch_up()).await;
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// What was not counted now is counted later; what was not seen is missing.
async fn told(done: impl Future<Output = Result<(), impl std::error::Error + 'static>>) {
    if let Err(error) = done.await {
        tracing::warn!(error = &error as &dyn std::error::Error, "figures wait");
    }
}
