//! One figure over time, from what was kept of each minute.

use std::collections::BTreeMap;

use pinfold_api::{MetricsHistory, MetricsPoint};
use pinfold_lifecycle::Timestamp;
use pinfold_metrics::{Series, Sums};
use pinfold_store::{Measured, Measures};

use super::super::words::moment;
use crate::{Failure, Service};

const HOUR_MS: u64 = 3_600_000;

impl Service {
    /// Without moments: the last hour.
    pub async fn metrics_history(
        &self,
        metric: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<MetricsHistory, Failure> {
        let series = Series::named(metric).map_err(|error| Failure::bad_input("metric", error))?;
        let to = to.map(|given| moment_in("to", given)).transpose()?.unwrap_or(self.now());
        let an_hour_ago = Timestamp(to.0.saturating_sub_unsigned(HOUR_MS));
        let from = from.map(|given| moment_in("from", given)).transpose()?.unwrap_or(an_hour_ago);
        if from >= to {
            return Err(Failure::bad_input("from", "it is not before `to`"));
        }
        self.catch_up().await?;
        let steps = self.host.store.measured(from, to).await?;
        let points = steps.into_iter().map(|step| point(series, step)).collect();
        Ok(MetricsHistory { metric: series.name().to_owned(), from: moment(from), to: moment(to), points })
    }
}

fn point(series: Series, step: Measured) -> MetricsPoint {
    let gauges: BTreeMap<_, _> = step.gauges.into_iter().map(|(name, it)| (name, it.mean())).collect();
    MetricsPoint {
        at: moment(step.at),
        step_seconds: step.step_ms / 1_000,
        value: series.value(&Sums(step.sums), &gauges),
    }
}

fn moment_in(field: &str, given: &str) -> Result<Timestamp, Failure> {
    let moment: Result<jiff::Timestamp, _> = given.parse();
    moment
        .map(|moment| Timestamp(moment.as_millisecond()))
        .map_err(|_| Failure::bad_input(field, "it is no moment such as `2026-01-31T12:00:00Z`"))
}
