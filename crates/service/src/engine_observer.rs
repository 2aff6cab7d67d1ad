//! The observer of this process's engine: probes and pings are counted, and operations are traced.

use std::sync::Arc;
use std::time::Duration;

use pinfold_engine::{Observer, ReconcileError, ReconcileMode, ReconcileReport};
use pinfold_lifecycle::{ProbeResult, Record, Sandbox};
use pinfold_metrics::ProcessMetrics;
use pinfold_notify::telemetry::Spans;
use pinfold_provider::InstanceId;

pub(crate) struct EngineObserver {
    pub(crate) meter: Arc<ProcessMetrics>,
    pub(crate) spans: Spans,
}

impl Observer for EngineObserver {
    fn committed(&self, sandbox: &Sandbox, records: &[Record]) {
        self.spans.committed(sandbox, records);
    }

    fn probed(&self, instance: InstanceId, result: &ProbeResult, took: Duration) {
        self.meter.probed(result, took);
        self.spans.probed(instance, result, took);
    }

    fn pinged(&self, _instance: InstanceId, result: &ProbeResult) {
        self.meter.pinged(result);
    }

    fn compared(&self, mode: ReconcileMode, took_ms: u64, found: Result<&ReconcileReport, &ReconcileError>) {
        self.spans.compared(mode, took_ms, found);
    }
}
