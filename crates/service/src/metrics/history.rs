//! One metric over time, from the stored steps.

use std::collections::BTreeMap;

use pinfold_api::{MetricsHistory, MetricsPoint};
use pinfold_lifecycle::Timestamp;
use pinfold_metrics::{Counters, Series};
use pinfold_store::MetricPoint;

use super::super::convert::rfc3339;
use crate::{Failure, Service};

const HOUR_MS: u64 = 3_600_000;

impl Service {
    /// The values of a metric between two times. Default: the last hour.
    pub async fn metrics_history(
        &self,
        metric: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<MetricsHistory, Failure> {
        let series = Series::parse(metric).map_err(|error| Failure::bad_input("metric", error))?;
        let to = to.map(|given| parse_time("to", given)).transpose()?.unwrap_or(self.now());
        let an_hour_ago = Timestamp(to.0.saturating_sub_unsigned(HOUR_MS));
        let from = from.map(|given| parse_time("from", given)).transpose()?.unwrap_or(an_hour_ago);
        if from >= to {
            return Err(Failure::bad_input("from", "must be before `to`"));
        }
        self.catch_up().await?;
        let steps = self.host.store.metric_points(from, to).await?;
        let points = steps.into_iter().map(|step| point(series, step)).collect();
        Ok(MetricsHistory { metric: series.name().to_owned(), from: rfc3339(from), to: rfc3339(to), points })
    }
}

fn point(series: Series, step: MetricPoint) -> MetricsPoint {
    let gauges: BTreeMap<_, _> = step.gauges.into_iter().map(|(name, it)| (name, it.mean())).collect();
    MetricsPoint {
        at: rfc3339(step.at),
        step_seconds: step.step_ms / 1_000,
        value: series.value(&Counters(step.counters), &gauges),
    }
}

fn parse_time(field: &str, given: &str) -> Result<Timestamp, Failure> {
    let time: Result<jiff::Timestamp, _> = given.parse();
    time.map(|time| Timestamp(time.as_millisecond()))
        .map_err(|_| Failure::bad_input(field, "not an RFC 3339 time such as `2026-01-31T12:00:00Z`"))
}
