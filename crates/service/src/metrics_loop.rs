//! The server's metrics loops: aggregate the history and this process's counters, sample gauges once a minute,
//! downsample and archive old values. Several servers on one store share the work without coordination.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::Service;
use crate::log_retention::check_interval;

/// Short: a record that is removed before it is counted has lost its agent type.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// Longer, since pings alone would cause a commit each time.
const FLUSH_METER_EVERY: Duration = Duration::from_secs(10);
const SAMPLE_EVERY: Duration = Duration::from_secs(60);
const DOWNSAMPLE_EVERY: Duration = Duration::from_secs(15 * 60);

/// Runs until aborted.
pub(crate) async fn metrics_loop(service: Arc<Service>, keep: Duration) {
    // Concurrent: a slow archive must not delay counting.
    tokio::join!(aggregate_loop(&service), downsample_loop(&service, keep));
}

async fn aggregate_loop(service: &Service) {
    let (mut history, mut meter, mut gauges) =
        (every(COUNT_EVERY), every(FLUSH_METER_EVERY), every(SAMPLE_EVERY));
    loop {
        tokio::select! {
            _ = history.tick() => log_failure(service.count_history()).await,
            _ = meter.tick() => log_failure(service.flush_meter()).await,
            _ = gauges.tick() => log_failure(service.sample()).await,
        }
    }
}

async fn downsample_loop(service: &Service, keep: Duration) {
    let mut due = every(check_interval(keep, DOWNSAMPLE_EVERY));
    loop {
        due.tick().await;
        log_failure(service.downsample(keep)).await;
    }
}

/// Writes this process's remaining counters at shutdown.
pub(crate) async fn flush(service: &Service) {
    log_failure(service.catch_up()).await;
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// History that was not counted is counted in the next round; a missed sample is lost.
async fn log_failure(step: impl Future<Output = Result<(), impl std::error::Error + 'static>>) {
    if let Err(error) = step.await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "metrics flush failed, retrying in the next round"
        );
    }
}
