//! One scheduled turn of cleanup over real sandboxes, older than anything allows: it ends those that are stuck, in
//! whichever way, and none that is at work; and somebody is alerted for what is wrong, and for nothing else.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod expected;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pinfold_api::{AlertEvent, AlertState, CleanupLayer, CleanupOutcome, CleanupRun};
use pinfold_crowd::{Crowd, Ground, Pace, Served, Size, gather};
use pinfold_lifecycle::{Cause, Finding, Life, SandboxId};
use pinfold_linux::NurseryProgram;
use pinfold_store::{CameTo, Chores, Figures};

use expected::{About, Expected};
use told::Told;

/// A crowd is 160 and 10: that is what `cargo xtask bench cleanup` has.
const SIZE: Size = Size { at_work: 28, of_each: 3 };

async fn is_right(ground: Arc<Ground>, told: Told) {
    let crowd = gather(&ground, SIZE).await.unwrap();
    let served = crowd.grow_old(&ground).await.unwrap();
    let before = Expected::before_the_turn(&crowd);
    assert_eq!(fired(&served).await, before.fired, "before the turn");
    assert_eq!(firing(&served).await, before.firing, "before the turn");

    let run = ground.first_turn(&served).await.unwrap();
    served.look(&ground).await.unwrap();

    ended_exactly_what_is_stuck(&ground, &crowd, &run).await;
    let after = Expected::after_the_turn(&crowd);
    assert_eq!(fired(&served).await, after.fired, "after the turn");
    assert_eq!(resolved(&served).await, after.resolved, "after the turn");
    assert_eq!(firing(&served).await, after.firing, "after the turn");

    let again = served.client.clean_up(false).await.unwrap();
    served.look(&ground).await.unwrap();

    assert_eq!((again.found, again.kept), (vec![], vec![]));
    assert_eq!(fired(&served).await, after.fired, "after another one that had nothing to do");
    the_log_tells(&told.lines(), &crowd.stuck);
    served.end().await.unwrap();
}

async fn ended_exactly_what_is_stuck(ground: &Ground, crowd: &Crowd, run: &CleanupRun) {
    assert_eq!((run.layer, run.outcome), (CleanupLayer::Scheduled, CleanupOutcome::Done), "{run:?}");
    assert!(run.due_at.is_some(), "nobody asked for it: {run:?}");
    let figures = figures(ground).await;
    let expected: BTreeSet<_> = crowd.stuck.keys().copied().collect();
    assert_eq!(figures.found_ids.iter().copied().collect::<BTreeSet<_>>(), expected, "{figures:?}");
    assert_eq!(figures.ended_ids.iter().copied().collect::<BTreeSet<_>>(), expected, "{figures:?}");
    assert_eq!(
        (run.scanned, run.found, run.ended),
        (SIZE.all() as u64, SIZE.stuck() as u64, SIZE.stuck() as u64)
    );
    assert_eq!((run.failed, run.kept), (0, 0), "{run:?}");
    let reasons =
        ["failed", "never_ready", "overdue", "silent"].map(|it| (it.to_owned(), SIZE.of_each as u64));
    assert_eq!(run.reasons, BTreeMap::from(reasons));
    for (id, cause) in &crowd.stuck {
        let Life::Ended { cause: ended, receipt, .. } = ground.stored(*id).await.unwrap().sandbox.life else {
            panic!("{id} has not ended");
        };
        assert_eq!(ended, *cause, "{id}");
        assert!(receipt.checks.iter().all(|check| check.result == Finding::Absent), "{receipt:?}");
    }
    let bodies: BTreeMap<_, _> = ground.bodies().await.unwrap().into_iter().collect();
    assert_eq!(bodies, crowd.at_work.iter().map(|id| (*id, true)).collect());
    for id in &crowd.at_work {
        assert_eq!(ground.stored(*id).await.unwrap().sandbox.executions.len(), 1, "{id}");
    }
}

/// The ids of those that were ended are for the store alone.
async fn figures(ground: &Ground) -> Figures {
    let runs = ground.service.host().store.runs(None, 10).await.unwrap();
    assert_eq!(runs.len(), 1, "{runs:?}");
    match &runs[0].ended.as_ref().unwrap().came_to {
        CameTo::Done(figures) => figures.clone(),
        other => panic!("{other:?}"),
    }
}

async fn entries(served: &Served, of: AlertEvent) -> Vec<About> {
    let history = served.client.alert_history(None, 1_000).await.unwrap();
    assert_eq!(history.next, None, "that was not all");
    let entries = history.entries.into_iter().filter(|entry| entry.event == of);
    let mut all: Vec<_> = entries.map(|entry| About::of(entry.name, entry.subject)).collect();
    all.sort();
    all
}

/// Since the beginning, each as often as it did.
async fn fired(served: &Served) -> Vec<About> {
    entries(served, AlertEvent::Fired).await
}

async fn resolved(served: &Served) -> Vec<About> {
    entries(served, AlertEvent::Resolved).await
}

/// Now.
async fn firing(served: &Served) -> Vec<About> {
    let list = served.client.alerts(Some(AlertState::Firing)).await.unwrap();
    let firings = |alert: pinfold_api::Alert| {
        let name = alert.name;
        alert.firings.into_iter().map(move |firing| About::of(name.clone(), firing.subject))
    };
    let mut all: Vec<_> = list.alerts.into_iter().flat_map(firings).collect();
    all.sort();
    all
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
async fn one_scheduled_cleanup_ends_exactly_what_is_stuck_and_alerts_for_exactly_that() {
    let told = Told::begin();
    let nursery = NurseryProgram {
        program: env!("CARGO_BIN_EXE_pinfold-crowd").into(),
        arguments: vec!["__nursery".into()],
    };
    let pace = Pace(Duration::from_millis(50));
    let ground = Arc::new(Ground::begin(tempfile::tempdir().unwrap(), nursery, pace).await.unwrap());

    let tested = tokio::spawn(is_right(ground.clone(), told)).await;

    let ended = ground.end().await;
    if let Err(failed) = tested {
        std::panic::resume_unwind(failed.into_panic());
    }
    ended.unwrap();
}
