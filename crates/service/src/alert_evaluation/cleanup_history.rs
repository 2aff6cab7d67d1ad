//! Alert inputs from cleanup runs: repeated failures, lateness, and sandboxes that were found twice.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_alerts::AlertInputs;
use pinfold_engine::Schedule;
use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_store::{JobRun, JobSchedule, ScheduledJob, StoreError};

use crate::Service;

/// Runs read per cleanup job, so that a frequent job does not hide a rare one.
const RUNS: usize = 20;

impl Service {
    pub(super) async fn measure_cleanups(&self, inputs: &mut AlertInputs) -> Result<(), StoreError> {
        let store = &self.host.store;
        let jobs = store.jobs().await?;
        let runs = last_runs(store.as_ref(), &jobs).await?;
        let since = self.host.cleaner.active_from();
        inputs.cleanup_failures_in_a_row = Some(failures_in_a_row(&runs));
        let expected = self.host.cleaner.expected_jobs();
        let never_planned = periods_never_planned(expected, &jobs, since, self.now());
        inputs.cleanup_periods_late = Some(periods_late(&jobs, since, self.now()).max(never_planned));
        inputs.cleanup_found_twice = Some(found_twice(&runs));
        Ok(())
    }
}

/// The last runs of each job. One query over all jobs would return too few runs of a rare one.
async fn last_runs(store: &dyn JobSchedule, jobs: &[ScheduledJob]) -> Result<Vec<JobRun>, StoreError> {
    let mut runs = Vec::new();
    for job in jobs {
        runs.extend(store.runs(Some(&job.name), RUNS).await?);
    }
    Ok(runs)
}

/// The most consecutive failures of any job. Runs of a job are ordered newest first.
fn failures_in_a_row(runs: &[JobRun]) -> u64 {
    let mut rows: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
    for run in runs {
        let Some(ended) = &run.ended else { continue };
        let (failures, is_over) = rows.entry(&run.job).or_default();
        *is_over |= ended.outcome.is_success();
        *failures += u64::from(!*is_over);
    }
    rows.values().map(|(failures, _)| *failures).max().unwrap_or(0)
}

/// How many periods the most delayed job is late. Time before a cleaner was running does not count.
#[expect(clippy::cast_precision_loss, reason = "durations, for a ratio")]
fn periods_late(jobs: &[ScheduledJob], since: Timestamp, now: Timestamp) -> f64 {
    let late = jobs.iter().filter(|job| job.holder.is_none_or(|held| held.until <= now)).map(|job| {
        let due_at = job.due_at.max(since);
        let next = Schedule::parse(&job.schedule).map(|schedule| schedule.next_after(job.due_at));
        let period_ms = next.map_or(0, |next| next.ms_since(job.due_at)).max(1);
        now.ms_since(due_at) as f64 / period_ms as f64
    });
    late.fold(0.0, f64::max)
}

/// The same for jobs that the store does not know: a layer plans its job when it begins, so one that is not planned
/// never ran.
#[expect(clippy::cast_precision_loss, reason = "durations, for a ratio")]
fn periods_never_planned<'a>(
    expected: impl Iterator<Item = (&'static str, &'a Schedule)>,
    jobs: &[ScheduledJob],
    since: Timestamp,
    now: Timestamp,
) -> f64 {
    let missing = expected.filter(|(name, _)| jobs.iter().all(|job| job.name != *name));
    let late = missing.map(|(_, schedule)| {
        let due_at = schedule.next_after(since);
        let period_ms = schedule.next_after(due_at).ms_since(due_at).max(1);
        now.ms_since(due_at) as f64 / period_ms as f64
    });
    late.fold(0.0, f64::max)
}

/// The number of sandboxes found by more than one run.
fn found_twice(runs: &[JobRun]) -> u64 {
    let (mut once, mut twice): (BTreeSet<SandboxId>, BTreeSet<SandboxId>) = Default::default();
    for inputs in runs.iter().filter_map(|run| run.ended.as_ref()?.outcome.report()) {
        let in_this: BTreeSet<_> = inputs.found_ids.iter().copied().collect();
        twice.extend(in_this.intersection(&once));
        once.extend(in_this);
    }
    twice.len() as u64
}

#[cfg(test)]
mod tests {
    use pinfold_lifecycle::NodeId;
    use pinfold_store::{RunEnd, RunHolder, RunId, RunOutcome, RunReport, UnscheduledRun};
    use pinfold_store_sqlite::InlineStore;

    use super::*;

    const NOON: Timestamp = Timestamp(1_763_251_200_000);
    const MINUTE: u64 = 60_000;

    fn run(job: &str, outcome: RunOutcome) -> JobRun {
        let ended = Some(RunEnd { at: NOON, outcome });
        JobRun { id: RunId(1), job: job.into(), node: NodeId(1), due_at: Some(NOON), started_at: NOON, ended }
    }

    fn done(ids: &[u128]) -> RunOutcome {
        let found_ids = ids.iter().map(|id| SandboxId(*id)).collect();
        RunOutcome::Done(RunReport { found_ids, ..RunReport::default() })
    }

    fn failed() -> RunOutcome {
        RunOutcome::Failed { error: "no store".into(), report: RunReport::default() }
    }

    #[test]
    fn failures_are_counted_back_to_the_last_success_of_the_same_job() {
        let runs = [
            run("a", failed()),
            run("b", done(&[])),
            run("a", RunOutcome::Lost),
            run("a", done(&[])),
            run("a", failed()),
            run("b", failed()),
        ];

        assert_eq!(failures_in_a_row(&runs), 2);
        assert_eq!(failures_in_a_row(&runs[1..2]), 0);
        assert_eq!(failures_in_a_row(&[JobRun { ended: None, ..run("a", failed()) }]), 0);
    }

    #[test]
    fn a_run_with_failed_items_counts_as_failed() {
        let in_part = RunOutcome::Done(RunReport { found: 2, ended: 1, failed: 1, ..RunReport::default() });

        assert_eq!(failures_in_a_row(&[run("a", in_part), run("a", done(&[]))]), 1);
    }

    #[tokio::test]
    async fn a_failing_rare_job_is_seen_beside_a_succeeding_frequent_job() {
        let store = InlineStore::in_memory(7).unwrap();
        for (name, schedule) in [("often", "* * * * *"), ("rare", "0 * * * *")] {
            store.plan_job(name, schedule, NOON).await.unwrap();
        }
        for hour in 0..3_u64 {
            let started_at = NOON.after_ms(hour * 60 * MINUTE);
            let ran = |job: &str, outcome| {
                store.add_run(UnscheduledRun {
                    job: job.into(),
                    node: NodeId(1),
                    started_at,
                    ended_at: started_at,
                    outcome,
                })
            };
            ran("rare", failed()).await.unwrap();
            for _ in 0..60 {
                ran("often", done(&[])).await.unwrap();
            }
        }

        let runs = last_runs(&store, &store.jobs().await.unwrap()).await.unwrap();

        assert_eq!(failures_in_a_row(&runs), 3);
    }

    #[test]
    fn lateness_is_counted_in_periods_of_the_job() {
        let job = ScheduledJob {
            name: "a".into(),
            schedule: "*/5 * * * *".into(),
            due_at: NOON,
            holder: None,
            last_run: None,
        };
        let late = |job: &ScheduledJob, minutes: u64| {
            periods_late(std::slice::from_ref(job), NOON, NOON.after_ms(minutes * MINUTE))
        };
        let held = RunHolder { node: NodeId(1), until: NOON.after_ms(60 * MINUTE) };

        assert_eq!((late(&job, 0), late(&job, 10)), (0.0, 2.0));
        assert_eq!(late(&ScheduledJob { holder: Some(held), ..job.clone() }, 10), 0.0);
        let since = NOON.after_ms(9 * MINUTE);
        assert!(periods_late(&[job], since, NOON.after_ms(10 * MINUTE)) < 1.0);
    }

    #[test]
    fn layer_that_was_never_planned_is_late_from_its_first_due_time() {
        let schedule = Schedule::parse("*/5 * * * *").unwrap();
        let late = |minutes: u64, known: &[ScheduledJob]| {
            let expected = [("a", &schedule)].into_iter();
            periods_never_planned(expected, known, NOON, NOON.after_ms(minutes * MINUTE))
        };
        let planned = ScheduledJob {
            name: "a".into(),
            schedule: "*/5 * * * *".into(),
            due_at: NOON,
            holder: None,
            last_run: None,
        };

        assert_eq!((late(5, &[]), late(15, &[])), (0.0, 2.0));
        assert_eq!(late(15, &[planned]), 0.0);
    }

    #[test]
    fn a_sandbox_in_two_runs_was_found_twice() {
        let runs = [run("a", done(&[1, 2, 2])), run("b", done(&[2, 3])), run("a", done(&[3, 4]))];

        assert_eq!(found_twice(&runs), 2);
        assert_eq!(found_twice(&runs[..1]), 0);
    }
}
