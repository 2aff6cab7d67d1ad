//! What this process sees and no history tells: probes, refusals, requests. The first two are put beside the rest in the
//! store now and then, so that they are the fleet's; requests stay the process's own.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pinfold_lifecycle::Probed;

use crate::catalogue::{PROBES, REFUSED};
use crate::{Cleaned, Latency, Point, Sums, Times, Value};

#[derive(Debug, Default)]
pub struct Meter {
    pending: Mutex<Sums>,
    requests: Mutex<BTreeMap<Route, Times>>,
}

/// One kind of request. The route is a template and no path, so there are as many as the server has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    method: &'static str,
    route: String,
    status: &'static str,
}

impl Route {
    /// No template: nothing answers to that path.
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

impl Meter {
    fn requests(&self) -> MutexGuard<'_, BTreeMap<Route, Times>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> MutexGuard<'_, Sums> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A whole probe.
    pub fn probed(&self, probed: &Probed, took: Duration) {
        let mut pending = self.pending();
        pending.count(PROBES, &["probe", verdict(probed)]);
        pending.took(Latency::Probe, &[], u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    }

    pub fn pinged(&self, probed: &Probed) {
        self.pending().count(PROBES, &["ping", verdict(probed)]);
    }

    /// Somebody asked for a sandbox, and there is too little of that.
    pub fn refused(&self, short: &'static str) {
        self.pending().count(REFUSED, &[short]);
    }

    pub fn cleaned(&self, run: &Cleaned) {
        self.pending().cleaned(run);
    }

    /// Whoever did this run was gone before it said what it came to.
    pub fn lost_cleanup(&self, layer: &'static str) {
        self.pending().lost_cleanup(layer);
    }

    /// So many old records went.
    pub fn forgot(&self, records: u64) {
        self.pending().forgot(records);
    }

    pub fn answered(&self, route: &Route, took: Duration) {
        let mut requests = self.requests();
        match requests.get_mut(route) {
            Some(times) => times.observe(took.as_secs_f64()),
            None => requests.entry(route.clone()).or_default().observe(took.as_secs_f64()),
        }
    }

    /// Everything that was not taken yet.
    #[must_use]
    pub fn take(&self) -> Sums {
        std::mem::take(&mut *self.pending())
    }

    /// What was taken could not be kept.
    pub fn give_back(&self, sums: &Sums) {
        self.pending().merge(sums);
    }

    /// Requests by method, route and status.
    pub(crate) fn answers(&self) -> Vec<Point> {
        let point = |(route, times): (&Route, &Times)| {
            let Route { method, route, status } = route;
            let labels = vec![(*method).to_owned(), route.clone(), (*status).to_owned()];
            Point { labels, value: Value::Times(times.clone()) }
        };
        self.requests().iter().map(point).collect()
    }
}

fn verdict(probed: &Probed) -> &'static str {
    match probed {
        Probed::Passed => "passed",
        Probed::Failed(_) => "failed",
        Probed::Unknown { .. } => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_taken_once_unless_it_is_given_back() {
        let meter = Meter::default();
        meter.pinged(&Probed::Passed);

        let taken = meter.take();
        assert!(meter.take().is_empty());
        meter.give_back(&taken);

        assert_eq!(meter.take().get(PROBES, &["ping", "passed"]), 1);
    }

    #[test]
    fn methods_and_statuses_that_nobody_knows_are_one_each() {
        let strange = Route::new("BREW", None, 799);

        assert_eq!((strange.method, strange.route.as_str(), strange.status), ("other", "none", "5xx"));
    }
}
