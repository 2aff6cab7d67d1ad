//! The history, and finding the changes of other processes.

use pinfold_lifecycle::{Event, Fact, Request, SandboxId};

use super::TestedStore;
use super::fixture::{NODE, NOON, StoreFixture};
use crate::{Changes, Seq};

pub async fn history_is_read_in_pages_of_one_sandbox_or_of_all(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create(1).await;
    fixture.create(2).await;
    fixture.end(1).await;

    let all = fixture.store.history(None, Seq(0), 100).await.unwrap();
    let first = fixture.store.history(None, Seq(0), 3).await.unwrap();
    let rest = fixture.store.history(None, first[2].seq, 100).await.unwrap();
    let of_two = fixture.store.history(Some(SandboxId(2)), Seq(0), 100).await.unwrap();

    assert!(all.is_sorted_by(|a, b| a.seq < b.seq));
    assert_eq!([first, rest].concat(), all);
    let of_two_in_all: Vec<_> = all.iter().filter(|row| row.sandbox == SandboxId(2)).collect();
    assert!(of_two.iter().eq(of_two_in_all));
    assert_eq!(of_two[0].record.fact, Fact::Created);
    assert_eq!((of_two[0].record.at, of_two[0].record.by), (NOON, NODE));
    assert!(matches!(all.last().unwrap().record.fact, Fact::Ended { .. }));
}

pub async fn the_last_record_of_a_sandbox_is_its_own(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    fixture.create_ready(2).await;

    let last = fixture.store.last_record(SandboxId(1)).await.unwrap();
    let nobodys = fixture.store.last_record(SandboxId(3)).await.unwrap();

    let all = fixture.store.history(Some(SandboxId(1)), Seq(0), 100).await.unwrap();
    assert_eq!(last.as_ref(), all.last());
    assert_eq!(nobodys, None);
}

pub async fn changes_name_each_sandbox_once(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    fixture.create_ready(2).await;
    fixture.create_ready(3).await;
    let all = fixture.store.changes(Seq(0)).await.unwrap();
    fixture.execute(2, 5).await;
    fixture.execute(2, 6).await;
    let nothing_before = fixture.store.changes(all.up_to).await.unwrap();

    let nothing = fixture.store.changes(nothing_before.up_to).await.unwrap();

    assert_eq!(all.sandboxes, [SandboxId(1), SandboxId(2), SandboxId(3)]);
    assert_eq!(nothing_before.sandboxes, [SandboxId(2)]);
    assert!(nothing_before.up_to > all.up_to);
    let (sandboxes, up_to) = (vec![], nothing_before.up_to);
    assert_eq!(nothing, Changes { sandboxes, up_to });
}

pub async fn a_commit_without_a_history_record_is_among_the_changes(tested: &dyn TestedStore) {
    let mut fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    let seen = fixture.store.changes(Seq(0)).await.unwrap().up_to;
    // A routine probe begins.
    fixture.advance_ms(fixture.policy.probe_every_ms);
    fixture.step(1, Event::TimePassed).await;

    let changes = fixture.store.changes(seen).await.unwrap();

    assert_eq!(fixture.store.history(None, seen, 10).await.unwrap(), []);
    assert_eq!(changes.sandboxes, [SandboxId(1)]);
    assert!(changes.up_to > seen);
}

pub async fn a_deleted_sandbox_is_among_the_changes(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    fixture.request(1, Request::Forget).await;
    let seen = fixture.store.changes(Seq(0)).await.unwrap().up_to;
    fixture.stop_succeeds(1).await;

    let changes = fixture.store.changes(seen).await.unwrap();

    assert_eq!(changes.sandboxes, [SandboxId(1)]);
}
