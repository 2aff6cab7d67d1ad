//! Rows that cannot be parsed: they are listed, kept and quarantined, never dropped.

use pinfold_lifecycle::{ExecutionId, Lease, OutcomeKind, Policy, SandboxId, Spec, quarantine_unreadable};

use super::fixture::{NOON, StoreFixture};
use super::{RowPart, TestedStore};
use crate::{Retention, Row, SandboxFilter, UnreadableRow};

const PARTS: [RowPart; 4] = [RowPart::State, RowPart::Spec, RowPart::Policy, RowPart::Executions];

async fn unreadable(fixture: &StoreFixture, id: u128) -> UnreadableRow {
    match fixture.store.load(SandboxId(id)).await.unwrap() {
        Some(Row::Unreadable(row)) => row,
        other => panic!("not an unreadable row: {other:?}"),
    }
}

async fn quarantine(fixture: &StoreFixture, row: &UnreadableRow) {
    let transition = quarantine_unreadable(row.id, row.generation, row.why.clone(), fixture.ctx());
    fixture.commit(transition, row.version).await;
}

pub async fn an_unreadable_row_is_shown_and_stays_due(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    for (id, part) in (1..).zip(PARTS) {
        fixture.create_ready(id).await;
        fixture.execute(id, 10 + id).await;
        let before = fixture.load(id).await;

        tested.make_unreadable(SandboxId(id), part);

        let row = unreadable(&fixture, id).await;
        assert_eq!(row.generation, before.sandbox.generation());
        assert_eq!(row.version, before.version);
        assert!(!row.why.is_empty());
    }
    let listed = fixture.store.list(SandboxFilter::Present, None, 10).await.unwrap();
    assert_eq!(listed.len(), PARTS.len());
    assert!(listed.iter().all(|row| matches!(row, Row::Unreadable(_))));
    let due = fixture.store.due(NOON.after_ms(1_000_000), 10).await.unwrap();
    assert_eq!(due.len(), PARTS.len());
}

pub async fn an_unreadable_row_can_be_quarantined(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    for (id, part) in (1..).zip(PARTS) {
        fixture.create_ready(id).await;
        fixture.execute(id, 10 + id).await;
        tested.make_unreadable(SandboxId(id), part);

        quarantine(&fixture, &unreadable(&fixture, id).await).await;

        let stored = fixture.load(id).await;
        assert!(matches!(stored.sandbox.lease, Lease::Quarantined { .. }));
        let spec_is_lost = part == RowPart::Spec;
        assert_eq!(*stored.spec == Spec::default(), spec_is_lost);
        assert_eq!(*stored.policy, Policy::default());
    }
    assert_eq!(fixture.store.totals().await.unwrap().present(), PARTS.len() as u64);
}

pub async fn an_unreadable_row_is_never_pruned(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    for id in 1..=3 {
        fixture.create_ready(id).await;
        fixture.end(id).await;
    }
    tested.make_unreadable(SandboxId(1), RowPart::State);
    let moment = Retention { records_before: NOON.after_ms(1), history_before: NOON, now: NOON };

    let first = fixture.store.prune(moment, 1).await.unwrap().sandboxes;
    let pruned = first + fixture.store.prune(moment, 10).await.unwrap().sandboxes;

    assert_eq!(pruned, 2);
    unreadable(&fixture, 1).await;
}

pub async fn executions_of_an_unreadable_row_end_as_lost(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    fixture.execute(1, 5).await;
    tested.make_unreadable(SandboxId(1), RowPart::State);

    quarantine(&fixture, &unreadable(&fixture, 1).await).await;

    let execution = fixture.store.execution(ExecutionId(5)).await.unwrap().unwrap().execution;
    assert_eq!(execution.outcome().unwrap().kind, OutcomeKind::Lost);
    assert_eq!(fixture.sandbox(1).await.executions, []);
}
