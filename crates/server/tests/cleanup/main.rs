//! One scheduled cleanup over real sandboxes, older than anything allows: it ends those that are stuck, in whichever
//! way, and none that is at work.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod aged;
mod herd;
mod time;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pinfold_engine::{Clock, How, Layer};
use pinfold_lifecycle::{Cause, Finding, Life, SandboxId};
use pinfold_store::{CameTo, Chores, Figures, Run};

use herd::{Herd, SETTLE_MS};
use told::Told;

/// How many are at work, and how many are stuck in each of the four ways. A crowd is 160 and 10.
const AT_WORK: usize = 8;
const OF_EACH: usize = 1;

const WORKING: &str = "while :; do echo at work; sleep 0.5; done";
const COMPUTING: &str = "while :; do :; done";
const SILENT: &str = "exec sleep 1000";

struct Crowd {
    at_work: Vec<SandboxId>,
    stuck: BTreeMap<SandboxId, Cause>,
}

async fn gather(herd: &Herd) -> Crowd {
    let mut stuck = BTreeMap::new();
    // Some computes and says nothing for as long as it likes.
    let mut at_work = vec![herd.running(COMPUTING).await];
    while at_work.len() < AT_WORK {
        at_work.push(herd.running(WORKING).await);
    }
    stuck.extend(herd.unhealthy(OF_EACH).await.into_iter().map(|id| (id, Cause::ProbeFailed)));
    for number in 0..OF_EACH {
        stuck.insert(herd.never_ready(number as u128 + 1).await, Cause::StartDeadline);
        stuck.insert(herd.overdue().await, Cause::MaxLife);
        // Every second one has nothing to do.
        if number % 2 == 0 {
            stuck.insert(herd.running(SILENT).await, Cause::Inactivity);
        } else {
            stuck.insert(herd.doing_nothing().await, Cause::Idle);
        }
    }
    Crowd { at_work, stuck }
}

/// Moves time to shortly before the first turn: time enough for a sign of life.
fn move_to_the_first_turn(herd: &Herd) {
    let turn = herd.began_at.after_ms(SETTLE_MS);
    herd.clock.move_by(turn.ms_since(herd.clock.now()) - 3_000);
}

async fn first_run(herd: &Herd) -> (Run, Figures) {
    loop {
        let runs = herd.store.runs(Some(Layer::Scheduled.chore()), 1).await.unwrap();
        if let Some(run) = runs.into_iter().find(|run| run.ended.is_some()) {
            return match &run.ended.as_ref().unwrap().came_to {
                CameTo::Done(figures) => (run.clone(), figures.clone()),
                other => panic!("{other:?}"),
            };
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn ends_exactly_what_is_stuck(herd: Arc<Herd>, told: Told) {
    let Crowd { at_work, stuck } = herd.in_time(gather(&herd)).await;
    move_to_the_first_turn(&herd);

    let (run, figures) = herd.in_time(first_run(&herd)).await;
    let again = herd.cleaner.clean_up(Layer::Scheduled, How::Act).await.unwrap();

    let expected: BTreeSet<_> = stuck.keys().copied().collect();
    assert_eq!(figures.found_ids.iter().copied().collect::<BTreeSet<_>>(), expected, "{figures:?}");
    assert_eq!(figures.ended_ids.iter().copied().collect::<BTreeSet<_>>(), expected, "{figures:?}");
    assert_eq!((figures.scanned, figures.failed), ((AT_WORK + 4 * OF_EACH) as u64, 0), "{figures:?}");
    for reason in ["never_ready", "failed", "overdue", "silent"] {
        assert_eq!(figures.reasons[reason], OF_EACH as u64, "{figures:?}");
    }
    for (id, cause) in &stuck {
        let Life::Ended { cause: ended, receipt, .. } = herd.stored(*id).await.sandbox.life else {
            panic!("{id} has not ended");
        };
        assert_eq!(ended, *cause, "{id}");
        assert!(receipt.checks.iter().all(|check| check.result == Finding::Absent), "{receipt:?}");
    }
    assert_eq!((again.found, again.kept), (vec![], vec![]));
    let whole = herd.bodies().await;
    assert_eq!(whole, at_work.iter().map(|id| (*id, true)).collect());
    for id in &at_work {
        assert_eq!(herd.stored(*id).await.sandbox.executions.len(), 1, "{id}");
    }
    the_log_tells(&told.lines(), &stuck);
    let took_ms = run.ended.unwrap().at.ms_since(run.began_at);
    assert!(took_ms < 10_000, "it took {took_ms} ms");
}

fn the_log_tells(lines: &[String], stuck: &BTreeMap<SandboxId, Cause>) {
    let count = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
    assert_eq!((count("Sandbox cleanup started"), count("Cleanup completed")), (2, 2), "{lines:#?}");
    assert_eq!(count(&format!("Found {} sandboxes to cleanup", stuck.len())), 1, "{lines:#?}");
    assert_eq!(count("Found 0 sandboxes to cleanup"), 1, "{lines:#?}");
    assert_eq!(count(&format!("cleaned={} ", stuck.len())), 1, "{lines:#?}");
    for id in stuck.keys() {
        assert_eq!(count(&format!("Cleaned up {id}")), 1, "{id}: {lines:#?}");
    }
    assert_eq!((count("Failed to cleanup"), count("Cleanup job failed")), (0, 0), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_scheduled_cleanup_ends_exactly_what_is_stuck() {
    let told = Told::begin();
    let herd = Arc::new(Herd::begin().await);

    let tested = tokio::spawn(ends_exactly_what_is_stuck(herd.clone(), told)).await;

    herd.end().await;
    if let Err(failed) = tested {
        std::panic::resume_unwind(failed.into_panic());
    }
}
