//! Archiving of metrics: whole days move from the store to the object store. A day is closed first, so that every
//! attempt to archive it writes the same content, and is dropped from the store afterwards.

use std::collections::BTreeMap;

use pinfold_lifecycle::Timestamp;
use pinfold_logs::{ArchiveError, MetricsArchive};
use pinfold_store::{CounterValues, Gauge, MetricPoint, MetricStore, StoreError, floor_to_step};
use serde::Serialize;

use crate::convert::rfc3339;

pub(super) const DAY_MS: u64 = 24 * 3_600_000;
/// The format version of archived documents.
const FORMAT: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveDaysError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("could not archive the metrics of {day}; they stay in the store until a retry succeeds")]
    Archive { day: String, source: ArchiveError },
    #[error("could not serialize the metrics of {day}")]
    Document { day: String, source: serde_json::Error },
}

/// The archived document of one day.
#[derive(Debug, Serialize)]
struct Day<'a> {
    format: u32,
    day: &'a str,
    steps: Vec<Step<'a>>,
}

#[derive(Debug, Serialize)]
struct Step<'a> {
    at: String,
    step_seconds: u64,
    counters: &'a CounterValues,
    gauges: &'a BTreeMap<String, Gauge>,
}

/// Archives all days that ended before `before`, oldest first. A day that cannot be archived stays, and so do later
/// ones.
pub(super) async fn archive_days(
    store: &dyn MetricStore,
    archive: &MetricsArchive,
    before: Timestamp,
) -> Result<(), ArchiveDaysError> {
    while let Some(oldest) = store.oldest_metric_point().await? {
        let begin = floor_to_step(oldest, DAY_MS);
        let end = begin.after_ms(DAY_MS);
        if end > before {
            break;
        }
        archive_day(store, archive, begin, end).await?;
        store.drop_closed_points(end).await?;
    }
    Ok(())
}

async fn archive_day(
    store: &dyn MetricStore,
    archive: &MetricsArchive,
    begin: Timestamp,
    end: Timestamp,
) -> Result<(), ArchiveDaysError> {
    store.close_quarter_hours(end).await?;
    let steps = store.metric_points(begin, end).await?;
    if steps.is_empty() {
        // Another server has archived it concurrently.
        return Ok(());
    }
    let day = rfc3339(begin).chars().take_while(|character| *character != 'T').collect::<String>();
    let document =
        document(&day, &steps).map_err(|source| ArchiveDaysError::Document { day: day.clone(), source })?;
    let kept = archive.keep(&day, document).await;
    kept.map_err(|source| ArchiveDaysError::Archive { day: day.clone(), source })?;
    tracing::info!(day, steps = steps.len(), "metrics archived");
    Ok(())
}

fn document(day: &str, steps: &[MetricPoint]) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Day { format: FORMAT, day, steps: steps.iter().map(step_view).collect() })
}

fn step_view(step: &MetricPoint) -> Step<'_> {
    Step {
        at: rfc3339(step.at),
        step_seconds: step.step_ms / 1_000,
        counters: &step.counters,
        gauges: &step.gauges,
    }
}

#[cfg(test)]
mod tests;
