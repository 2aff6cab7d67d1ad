//! Promises about rows that nobody can read: they are shown, kept and put into quarantine, never dropped.

use pinfold_lifecycle::{ExecutionId, Lease, OutcomeKind, Policy, SandboxId, Spec, quarantine_unreadable};

use super::world::{NOON, World};
use super::{Part, Subject};
use crate::{Filter, Retention, Row, Unreadable};

const PARTS: [Part; 4] = [Part::State, Part::Spec, Part::Policy, Part::Executions];

async fn unreadable(world: &World, id: u128) -> Unreadable {
    match world.store.load(SandboxId(id)).await.unwrap() {
        Some(Row::Unreadable(row)) => row,
        other => panic!("not an unreadable row: {other:?}"),
    }
}

async fn quarantine(world: &World, row: &Unreadable) {
    let transition = quarantine_unreadable(row.id, row.generation, row.why.clone(), world.ctx());
    world.commit(transition, row.version).await;
}

pub async fn an_unreadable_row_is_shown_and_stays_due(subject: &dyn Subject) {
    let world = World::over(subject);
    for (id, part) in (1..).zip(PARTS) {
        world.live(id).await;
        world.execute(id, 10 + id).await;
        let before = world.load(id).await;

        subject.spoil(SandboxId(id), part);

        let row = unreadable(&world, id).await;
        assert_eq!(row.generation, before.sandbox.generation());
        assert_eq!(row.version, before.version);
        assert!(!row.why.is_empty());
    }
    let listed = world.store.list(Filter::Present, None, 10).await.unwrap();
    assert_eq!(listed.len(), PARTS.len());
    assert!(listed.iter().all(|row| matches!(row, Row::Unreadable(_))));
    let due = world.store.due(NOON.after_ms(1_000_000), 10).await.unwrap();
    assert_eq!(due.len(), PARTS.len());
}

pub async fn an_unreadable_row_can_be_quarantined(subject: &dyn Subject) {
    let world = World::over(subject);
    for (id, part) in (1..).zip(PARTS) {
        world.live(id).await;
        world.execute(id, 10 + id).await;
        subject.spoil(SandboxId(id), part);

        quarantine(&world, &unreadable(&world, id).await).await;

        let stored = world.load(id).await;
        assert!(matches!(stored.sandbox.lease, Lease::Quarantined { .. }));
        let spec_is_lost = part == Part::Spec;
        assert_eq!(*stored.spec == Spec::default(), spec_is_lost);
        assert_eq!(*stored.policy, Policy::default());
    }
    assert_eq!(world.store.totals().await.unwrap().present(), PARTS.len() as u64);
}

pub async fn an_unreadable_row_is_never_pruned(subject: &dyn Subject) {
    let world = World::over(subject);
    for id in 1..=3 {
        world.live(id).await;
        world.end(id).await;
    }
    subject.spoil(SandboxId(1), Part::State);
    let moment = Retention { records_before: NOON.after_ms(1), history_before: NOON, now: NOON };

    let first = world.store.prune(moment, 1).await.unwrap().sandboxes;
    let pruned = first + world.store.prune(moment, 10).await.unwrap().sandboxes;

    assert_eq!(pruned, 2);
    unreadable(&world, 1).await;
}

pub async fn executions_of_an_unreadable_row_end_as_lost(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    world.execute(1, 5).await;
    subject.spoil(SandboxId(1), Part::State);

    quarantine(&world, &unreadable(&world, 1).await).await;

    let execution = world.store.execution(ExecutionId(5)).await.unwrap().unwrap().execution;
    assert_eq!(execution.outcome().unwrap().kind, OutcomeKind::Lost);
    assert_eq!(world.sandbox(1).await.executions, []);
}
