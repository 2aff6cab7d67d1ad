//! Promises about chores: each turn is one's alone, the dead hold nothing up, and what was done can be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_lifecycle::{NodeId, SandboxId, Timestamp};

use super::Subject;
use super::world::{NODE, NOON, OTHER_NODE};
use crate::{CameTo, Chores, Figures, Held, ItemFailed, NewRun, RUNS_KEPT, Run, RunEnded, TakeTurn, Turn};

const CHORE: &str = "sweep";
const HOLD_MS: u64 = 60_000;

async fn planned(subject: &dyn Subject) -> Arc<dyn Chores> {
    let chores = subject.chores();
    chores.plan(CHORE, "*/5 * * * *", NOON).await.unwrap();
    chores
}

fn ask(node: NodeId, now: Timestamp) -> TakeTurn {
    TakeTurn { chore: CHORE.into(), node, now, hold_until: now.after_ms(HOLD_MS) }
}

async fn taken(chores: &Arc<dyn Chores>, node: NodeId, now: Timestamp) -> Turn {
    chores.take(ask(node, now)).await.unwrap().expect("it is due")
}

fn nothing() -> CameTo {
    CameTo::Done(Figures::default())
}

fn much() -> Figures {
    Figures {
        scanned: 5,
        found: 3,
        ended: 2,
        failed: 1,
        kept: 1,
        pruned: 7,
        reasons: BTreeMap::from([("silent".to_owned(), 3)]),
        ended_reasons: BTreeMap::from([("silent".to_owned(), 2)]),
        found_ids: [1, 2, 3].map(SandboxId).to_vec(),
        ended_ids: [1, 2].map(SandboxId).to_vec(),
        failures: vec![ItemFailed { sandbox: SandboxId(3), why: "still there".into() }],
    }
}

pub async fn a_chore_is_due_at_its_time_and_not_before(subject: &dyn Subject) {
    let chores = planned(subject).await;

    let early = chores.take(ask(NODE, Timestamp(NOON.0 - 1))).await.unwrap();
    let turn = taken(&chores, NODE, NOON).await;
    let next = NOON.after_ms(300_000);
    let finished = chores.finish(&turn, NOON.after_ms(5), next, nothing()).await.unwrap();
    let again = chores.take(ask(NODE, NOON.after_ms(299_999))).await.unwrap();

    assert_eq!((early, finished, again), (None, true, None));
    assert_eq!(taken(&chores, OTHER_NODE, next).await.due_at, next);
    assert_eq!(chores.take(TakeTurn { chore: "unheard of".into(), ..ask(NODE, next) }).await.unwrap(), None);
}

pub async fn of_many_that_take_a_turn_one_gets_it(subject: &dyn Subject) {
    let chores = planned(subject).await;

    let racing = (0..16).map(|number| {
        let chores = chores.clone();
        tokio::spawn(async move { chores.take(ask(NodeId(number), NOON)).await.unwrap() })
    });
    let mut turns = Vec::new();
    for one in racing.collect::<Vec<_>>() {
        turns.extend(one.await.unwrap());
    }

    assert_eq!(turns.len(), 1);
    assert_eq!(chores.runs(None, 10).await.unwrap().len(), 1);
}

pub async fn a_turn_whose_holder_died_is_taken_over_and_its_end_changes_nothing(subject: &dyn Subject) {
    let chores = planned(subject).await;
    let dead = taken(&chores, NODE, NOON).await;
    let over = NOON.after_ms(HOLD_MS);

    let early = chores.take(ask(OTHER_NODE, Timestamp(over.0 - 1))).await.unwrap();
    let turn = taken(&chores, OTHER_NODE, over).await;
    let late = chores.finish(&dead, over, over.after_ms(9), CameTo::Done(much())).await.unwrap();
    let held = chores.hold(&dead, over.after_ms(HOLD_MS)).await.unwrap();

    assert_eq!((early, late, held), (None, false, false));
    let chore = chores.chores().await.unwrap().remove(0);
    assert_eq!(chore.held, Some(Held { by: OTHER_NODE, until: over.after_ms(HOLD_MS) }));
    let runs = chores.runs(Some(CHORE), 10).await.unwrap();
    let ends: Vec<_> = runs.iter().map(|run| (run.id, run.ended.clone())).collect();
    assert_eq!(ends, [(turn.run, None), (dead.run, Some(RunEnded { at: over, came_to: CameTo::Lost }))]);
    assert!(chores.finish(&turn, over, over.after_ms(9), nothing()).await.unwrap());
}

pub async fn a_turn_can_be_held_for_longer(subject: &dyn Subject) {
    let chores = planned(subject).await;
    let turn = taken(&chores, NODE, NOON).await;

    let held = chores.hold(&turn, NOON.after_ms(2 * HOLD_MS)).await.unwrap();

    assert!(held);
    assert_eq!(chores.take(ask(OTHER_NODE, NOON.after_ms(2 * HOLD_MS - 1))).await.unwrap(), None);
    assert!(chores.take(ask(OTHER_NODE, NOON.after_ms(2 * HOLD_MS))).await.unwrap().is_some());
}

pub async fn a_chore_that_is_planned_again_keeps_its_time_unless_its_schedule_differs(subject: &dyn Subject) {
    let chores = planned(subject).await;

    chores.plan(CHORE, "*/5 * * * *", NOON.after_ms(7)).await.unwrap();
    let same = chores.chores().await.unwrap().remove(0);
    chores.plan(CHORE, "0 * * * *", NOON.after_ms(9)).await.unwrap();
    let other = chores.chores().await.unwrap().remove(0);

    assert_eq!((same.due_at, same.held, same.last_run), (NOON, None, None));
    assert_eq!((other.due_at, other.schedule.as_str()), (NOON.after_ms(9), "0 * * * *"));
}

pub async fn a_turn_that_was_missed_many_times_is_taken_once(subject: &dyn Subject) {
    let chores = planned(subject).await;
    let next_day = NOON.after_ms(24 * 3_600_000);

    let turn = taken(&chores, NODE, next_day).await;
    chores.finish(&turn, next_day, next_day.after_ms(300_000), nothing()).await.unwrap();

    assert_eq!(turn.due_at, NOON);
    assert_eq!(chores.take(ask(NODE, next_day)).await.unwrap(), None);
}

pub async fn a_run_is_read_back_with_all_that_it_came_to(subject: &dyn Subject) {
    let chores = planned(subject).await;
    let turn = taken(&chores, NODE, NOON).await;
    let failed = CameTo::Failed { error: "the disk is full".into(), figures: much() };
    chores.finish(&turn, NOON.after_ms(5), NOON.after_ms(300_000), failed.clone()).await.unwrap();
    let asked = NewRun {
        chore: "by hand".into(),
        node: OTHER_NODE,
        began_at: NOON.after_ms(6),
        ended_at: NOON.after_ms(8),
        came_to: CameTo::Done(much()),
    };
    let id = chores.add_run(asked.clone()).await.unwrap();

    let scheduled = Run {
        id: turn.run,
        chore: CHORE.into(),
        node: NODE,
        due_at: Some(NOON),
        began_at: NOON,
        ended: Some(RunEnded { at: NOON.after_ms(5), came_to: failed }),
    };
    let by_hand = Run {
        id,
        chore: asked.chore,
        node: OTHER_NODE,
        due_at: None,
        began_at: asked.began_at,
        ended: Some(RunEnded { at: asked.ended_at, came_to: asked.came_to }),
    };
    assert_eq!(chores.runs(None, 10).await.unwrap(), [by_hand, scheduled.clone()]);
    assert_eq!(chores.runs(Some(CHORE), 10).await.unwrap(), std::slice::from_ref(&scheduled));
    assert_eq!(chores.chores().await.unwrap()[0].last_run, Some(scheduled));
}

pub async fn only_the_last_runs_of_each_chore_are_kept(subject: &dyn Subject) {
    let chores = subject.chores();
    let run = |chore: &str| NewRun {
        chore: chore.into(),
        node: NODE,
        began_at: NOON,
        ended_at: NOON,
        came_to: nothing(),
    };
    chores.add_run(run("seldom")).await.unwrap();
    let first = chores.add_run(run("often")).await.unwrap();

    for _ in 0..RUNS_KEPT {
        chores.add_run(run("often")).await.unwrap();
    }

    let kept = chores.runs(Some("often"), usize::MAX).await.unwrap();
    assert_eq!(kept.len(), RUNS_KEPT);
    assert!(kept.iter().all(|run| run.id > first));
    assert_eq!(chores.runs(Some("seldom"), 10).await.unwrap().len(), 1);
}
