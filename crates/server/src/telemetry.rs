//! Traces and figures for a collector that speaks OTLP, where somebody has said where it is. Nothing waits for it: spans
//! go into a queue that overflows, figures are those of `/metrics`, and both have carriers of their own
//! (`telemetry/outbox.rs`, `telemetry/figures.rs`).

mod clock;
mod collector;
mod delivery;
mod figures;
mod operations;
mod outbox;
mod requests;
mod spans;
mod told;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use collector::{BadCollector, BadHeader, Collector};

pub(crate) use spans::Spans;

use crate::Service;
use delivery::{Delivery, Signal};
use figures::carry_figures;
use outbox::Outbox;

#[derive(Debug, Clone)]
pub struct TelemetryConfig {
    pub collector: Collector,
    pub traces: bool,
    pub metrics: bool,
    /// Between two times that figures are told.
    pub interval: Duration,
    /// What this service is called there.
    pub service_name: String,
}

/// How long the last of it may take.
const FLUSH: Duration = Duration::from_secs(2);

/// What runs for as long as the server does.
#[derive(Default)]
pub(crate) struct Telemetry(Mutex<Option<Carriers>>);

struct Carriers {
    ending: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// Whether everything is to be told now that is left to tell.
#[derive(Clone)]
struct Ending(watch::Receiver<bool>);

impl Ending {
    fn has_come(&self) -> bool {
        *self.0.borrow()
    }

    async fn come(&mut self) {
        // Who is to say so is gone: that is an end, too.
        let _ = self.0.wait_for(|ending| *ending).await;
    }
}

impl Service {
    pub(crate) fn begin_telemetry(self: &Arc<Self>, config: &TelemetryConfig) {
        let ending = watch::Sender::new(false);
        let came = || Ending(ending.subscribe());
        let mut tasks = JoinSet::new();
        let resource = told::resource(&config.service_name, &self.host().engine.node().to_string());
        if config.traces {
            let (queue, outbox) = Outbox::new(Delivery::of(Signal::Traces, &config.collector), &resource);
            self.host().spans.begin(queue, self.now());
            self.host().engine.look_on(Arc::new(self.host().spans.clone()));
            tasks.spawn(outbox.carry(came()));
        }
        if config.metrics {
            let delivery = Delivery::of(Signal::Metrics, &config.collector);
            tasks.spawn(carry_figures(Arc::downgrade(self), config.interval, delivery, resource, came()));
        }
        *self.telemetry().lock() = Some(Carriers { ending, tasks });
    }

    /// Tells what is left to tell, as far as there is time for it.
    pub(crate) async fn end_telemetry(&self) {
        let carriers = self.telemetry().lock().take();
        let Some(Carriers { ending, mut tasks }) = carriers else { return };
        ending.send_replace(true);
        if timeout(FLUSH, async { while tasks.join_next().await.is_some() {} }).await.is_err() {
            tracing::warn!("the collector did not take the last of the telemetry in time");
        }
    }
}

impl Telemetry {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Carriers>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
