//! Whole days of figures leave the store for the archive. A day is closed first, so that nothing changes it any more:
//! whoever archives it, as often as it is begun, writes the same; and only then it is dropped.

use std::collections::BTreeMap;

use pinfold_lifecycle::Timestamp;
use pinfold_logs::{ArchiveError, FiguresArchive};
use pinfold_store::{Gauge, Measured, Measures, StoreError, Sums, step_of};
use serde::Serialize;

use crate::service::words::moment;

pub(super) const DAY_MS: u64 = 24 * 3_600_000;
/// Of the documents, for those who read them in years.
const FORMAT: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveDaysError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("could not archive the figures of {day}; they stay in the store until that succeeds")]
    Archive { day: String, source: ArchiveError },
    #[error("could not write down the figures of {day}")]
    Document { day: String, source: serde_json::Error },
}

/// One day in the archive.
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
    sums: &'a Sums,
    gauges: &'a BTreeMap<String, Gauge>,
}

/// Moves all days that have ended before this moment, the oldest first. One that cannot be archived stays, and so do those
/// after it.
pub(super) async fn archive_days(
    store: &dyn Measures,
    archive: &FiguresArchive,
    before: Timestamp,
) -> Result<(), ArchiveDaysError> {
    while let Some(oldest) = store.oldest_measured().await? {
        let begin = step_of(oldest, DAY_MS);
        let end = begin.after_ms(DAY_MS);
        if end > before {
            break;
        }
        archive_day(store, archive, begin, end).await?;
        store.drop_closed(end).await?;
    }
    Ok(())
}

async fn archive_day(
    store: &dyn Measures,
    archive: &FiguresArchive,
    begin: Timestamp,
    end: Timestamp,
) -> Result<(), ArchiveDaysError> {
    store.close(end).await?;
    let steps = store.measured(begin, end).await?;
    if steps.is_empty() {
        // Another server has archived it meanwhile.
        return Ok(());
    }
    let day = moment(begin).chars().take_while(|character| *character != 'T').collect::<String>();
    let document =
        document(&day, &steps).map_err(|source| ArchiveDaysError::Document { day: day.clone(), source })?;
    let kept = archive.keep(&day, document).await;
    kept.map_err(|source| ArchiveDaysError::Archive { day: day.clone(), source })?;
    tracing::info!(day, steps = steps.len(), "figures are archived");
    Ok(())
}

fn document(day: &str, steps: &[Measured]) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Day { format: FORMAT, day, steps: steps.iter().map(told).collect() })
}

fn told(step: &Measured) -> Step<'_> {
    Step { at: moment(step.at), step_seconds: step.step_ms / 1_000, sums: &step.sums, gauges: &step.gauges }
}

#[cfg(test)]
mod tests;
