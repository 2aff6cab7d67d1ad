//! Metrics that only this process sees: probes, refusals and HTTP requests. Probes and refusals are flushed to the
//! store at intervals and become fleet metrics; HTTP requests stay metrics of the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pinfold_lifecycle::ProbeResult;

use crate::catalogue::{PROBES, REFUSED, WRONG_TOKENS};
use crate::{CleanupRun, Counters, HistogramValue, Latency, Point, Value};

#[derive(Debug, Default)]
pub struct ProcessMetrics {
    pending: Mutex<Counters>,
    requests: Mutex<BTreeMap<Route, HistogramValue>>,
}

/// One kind of HTTP request. The route is a template, not a path, so the number of values is bounded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    method: &'static str,
    route: String,
    status: &'static str,
}

impl Route {
    /// Without a template: no route matches the path.
    #[must_use]
    pub fn new(method: &str, template: Option<&str>, status: u16) -> Self {
        let known = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"];
        let method = known.into_iter().find(|known| *known == method).unwrap_or("other");
        let status = match status / 100 {
            1 => "1xx",
            2 => "2xx",
            3 => "3xx",
            4 => "4xx",
            _ => "5xx",
        };
        Self { method, route: template.unwrap_or("none").to_owned(), status }
    }
}

impl ProcessMetrics {
    fn requests(&self) -> MutexGuard<'_, BTreeMap<Route, HistogramValue>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> MutexGuard<'_, Counters> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a full probe.
    pub fn probed(&self, probed: &ProbeResult, took: Duration) {
        let mut pending = self.pending();
        pending.count(PROBES, &["probe", verdict(probed)]);
        pending.record(Latency::Probe, &[], u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    }

    pub fn pinged(&self, probed: &ProbeResult) {
        self.pending().count(PROBES, &["ping", verdict(probed)]);
    }

    /// Records a refused create request, by what is short.
    pub fn refused(&self, short: &'static str) {
        self.pending().count(REFUSED, &[short]);
    }

    /// Records a request with a token that is not valid.
    pub fn wrong_token(&self) {
        self.pending().count(WRONG_TOKENS, &[]);
    }

    pub fn cleanup_ended(&self, run: &CleanupRun) {
        self.pending().count_cleanup(run);
    }

    /// Records a cleanup run whose process died before it reported.
    pub fn cleanup_lost(&self, layer: &'static str) {
        self.pending().count_lost_cleanup(layer);
    }

    /// Counts deleted records of sandboxes past retention.
    pub fn records_deleted(&self, records: u64) {
        self.pending().count_deleted_records(records);
    }

    pub fn request_answered(&self, route: &Route, took: Duration) {
        let mut requests = self.requests();
        match requests.get_mut(route) {
            Some(times) => times.observe(took.as_secs_f64()),
            None => requests.entry(route.clone()).or_default().observe(took.as_secs_f64()),
        }
    }

    /// Takes everything that was not flushed yet.
    #[must_use]
    pub fn take(&self) -> Counters {
        std::mem::take(&mut *self.pending())
    }

    /// Puts back what could not be flushed.
    pub fn restore(&self, counters: &Counters) {
        self.pending().merge(counters);
    }

    /// HTTP requests by method, route and status.
    pub(crate) fn answers(&self) -> Vec<Point> {
        let point = |(route, times): (&Route, &HistogramValue)| {
            let Route { method, route, status } = route;
            let labels = vec![(*method).to_owned(), route.clone(), (*status).to_owned()];
            Point { labels, value: Value::Histogram(times.clone()) }
        };
        self.requests().iter().map(point).collect()
    }
}

fn verdict(probed: &ProbeResult) -> &'static str {
    match probed {
        ProbeResult::Passed => "passed",
        ProbeResult::Failed(_) => "failed",
        ProbeResult::Unknown { .. } => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_counters_are_returned_once_unless_restored() {
        let meter = ProcessMetrics::default();
        meter.pinged(&ProbeResult::Passed);

        let taken = meter.take();
        assert!(meter.take().is_empty());
        meter.restore(&taken);

        assert_eq!(meter.take().get(PROBES, &["ping", "passed"]), 1);
    }

    #[test]
    fn unknown_methods_and_statuses_share_one_label() {
        let strange = Route::new("BREW", None, 799);

        assert_eq!((strange.method, strange.route.as_str(), strange.status), ("other", "none", "5xx"));
    }
}
