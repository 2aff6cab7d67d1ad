//! What the turns of cleanup say: whether they fail, are late, or have to end the same sandbox again.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_alerts::Figures;
use pinfold_engine::Schedule;
use pinfold_lifecycle::{SandboxId, Timestamp};
use pinfold_store::{Chore, Chores, Run, StoreError};

use crate::Service;

/// As many of the last runs of each chore as tell something about now: of one that is rare, as many as of one that is not.
const RUNS: usize = 20;

impl Service {
    pub(super) async fn look_at_cleanups(&self, figures: &mut Figures) -> Result<(), StoreError> {
        let store = &self.host().store;
        let chores = store.chores().await?;
        let runs = last_runs(store.as_ref(), &chores).await?;
        let since = self.host().cleaner.watches_since();
        figures.cleanup_failures_in_a_row = Some(failures_in_a_row(&runs));
        figures.cleanup_periods_late = Some(periods_late(&chores, since, self.now()));
        figures.cleanup_found_twice = Some(found_twice(&runs));
        Ok(())
    }
}

/// Of all of them together, a rare one's would be hidden behind a frequent one's.
async fn last_runs(store: &impl Chores, chores: &[Chore]) -> Result<Vec<Run>, StoreError> {
    let mut runs = Vec::new();
    for chore in chores {
        runs.extend(store.runs(Some(&chore.name), RUNS).await?);
    }
    Ok(runs)
}

/// Of the chore that fares worst. Of each, the newest run comes first.
fn failures_in_a_row(runs: &[Run]) -> u64 {
    let mut rows: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
    for run in runs {
        let Some(ended) = &run.ended else { continue };
        let (failures, is_over) = rows.entry(&run.chore).or_default();
        *is_over |= ended.came_to.is_success();
        *failures += u64::from(!*is_over);
    }
    rows.values().map(|(failures, _)| *failures).max().unwrap_or(0)
}

/// Of the latest one. Before somebody was there to begin it, nothing was late.
#[expect(clippy::cast_precision_loss, reason = "times, for a share of them")]
fn periods_late(chores: &[Chore], since: Timestamp, now: Timestamp) -> f64 {
    let late = chores.iter().filter(|chore| chore.held.is_none_or(|held| held.until <= now)).map(|chore| {
        let due_at = chore.due_at.max(since);
        let next = Schedule::parse(&chore.schedule).map(|schedule| schedule.next_after(chore.due_at));
        let period_ms = next.map_or(0, |next| next.ms_since(chore.due_at)).max(1);
        now.ms_since(due_at) as f64 / period_ms as f64
    });
    late.fold(0.0, f64::max)
}

/// Sandboxes that a run had to find although an earlier one had.
fn found_twice(runs: &[Run]) -> u64 {
    let (mut once, mut twice): (BTreeSet<SandboxId>, BTreeSet<SandboxId>) = Default::default();
    for figures in runs.iter().filter_map(|run| run.ended.as_ref()?.came_to.figures()) {
        let in_this: BTreeSet<_> = figures.found_ids.iter().copied().collect();
        twice.extend(in_this.intersection(&once));
        once.extend(in_this);
    }
    twice.len() as u64
}

#[cfg(test)]
mod tests {
    use pinfold_lifecycle::NodeId;
    use pinfold_store::{CameTo, Figures as RunFigures, Held, InlineStore, NewRun, RunEnded, RunId};

    use super::*;

    const NOON: Timestamp = Timestamp(1_763_251_200_000);
    const MINUTE: u64 = 60_000;

    fn run(chore: &str, came_to: CameTo) -> Run {
        let ended = Some(RunEnded { at: NOON, came_to });
        Run { id: RunId(1), chore: chore.into(), node: NodeId(1), due_at: Some(NOON), began_at: NOON, ended }
    }

    fn done(ids: &[u128]) -> CameTo {
        let found_ids = ids.iter().map(|id| SandboxId(*id)).collect();
        CameTo::Done(RunFigures { found_ids, ..RunFigures::default() })
    }

    fn failed() -> CameTo {
        CameTo::Failed { error: "no store".into(), figures: RunFigures::default() }
    }

    #[test]
    fn failures_are_counted_back_to_the_last_success_of_the_same_chore() {
        let runs = [
            run("a", failed()),
            run("b", done(&[])),
            run("a", CameTo::Lost),
            run("a", done(&[])),
            run("a", failed()),
            run("b", failed()),
        ];

        assert_eq!(failures_in_a_row(&runs), 2);
        assert_eq!(failures_in_a_row(&runs[1..2]), 0);
        assert_eq!(failures_in_a_row(&[Run { ended: None, ..run("a", failed()) }]), 0);
    }

    #[test]
    fn a_run_that_could_not_end_what_it_found_has_failed() {
        let in_part = CameTo::Done(RunFigures { found: 2, ended: 1, failed: 1, ..RunFigures::default() });

        assert_eq!(failures_in_a_row(&[run("a", in_part), run("a", done(&[]))]), 1);
    }

    #[tokio::test]
    async fn a_rare_chore_that_fails_is_seen_beside_a_frequent_one_that_does_not() {
        let store = InlineStore::in_memory(7).unwrap();
        for (name, schedule) in [("often", "* * * * *"), ("rare", "0 * * * *")] {
            store.plan(name, schedule, NOON).await.unwrap();
        }
        for hour in 0..3_u64 {
            let began_at = NOON.after_ms(hour * 60 * MINUTE);
            let ran = |chore: &str, came_to| {
                store.add_run(NewRun {
                    chore: chore.into(),
                    node: NodeId(1),
                    began_at,
                    ended_at: began_at,
                    came_to,
                })
            };
            ran("rare", failed()).await.unwrap();
            for _ in 0..60 {
                ran("often", done(&[])).await.unwrap();
            }
        }

        let runs = last_runs(&store, &store.chores().await.unwrap()).await.unwrap();

        assert_eq!(failures_in_a_row(&runs), 3);
    }

    #[test]
    fn what_is_due_and_not_begun_is_late_by_its_own_periods() {
        let chore = Chore {
            name: "a".into(),
            schedule: "*/5 * * * *".into(),
            due_at: NOON,
            held: None,
            last_run: None,
        };
        let late = |chore: &Chore, minutes: u64| {
            periods_late(std::slice::from_ref(chore), NOON, NOON.after_ms(minutes * MINUTE))
        };
        let held = Held { by: NodeId(1), until: NOON.after_ms(60 * MINUTE) };

        assert_eq!((late(&chore, 0), late(&chore, 10)), (0.0, 2.0));
        assert_eq!(late(&Chore { held: Some(held), ..chore.clone() }, 10), 0.0);
        let since = NOON.after_ms(9 * MINUTE);
        assert!(periods_late(&[chore], since, NOON.after_ms(10 * MINUTE)) < 1.0);
    }

    #[test]
    fn a_sandbox_in_two_runs_was_found_twice() {
        let runs = [run("a", done(&[1, 2, 2])), run("b", done(&[2, 3])), run("a", done(&[3, 4]))];

        assert_eq!(found_twice(&runs), 2);
        assert_eq!(found_twice(&runs[..1]), 0);
    }
}
