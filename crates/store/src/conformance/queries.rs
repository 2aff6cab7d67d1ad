//! Queries: due sandboxes, sandboxes and effects of a node, lists and totals.

use pinfold_lifecycle::{EffectKind, Event, Generation, Life, Request, SandboxId, StopOutcome, Timestamp};

use super::TestedStore;
use super::fixture::{MEMORY_MB, NODE, NOON, OTHER_NODE, StoreFixture};
use crate::{Row, SandboxFilter};

pub async fn due_sandboxes_are_listed_in_the_order_of_their_deadlines(tested: &dyn TestedStore) {
    let mut fixture = StoreFixture::new(tested);
    for id in [3, 1, 2] {
        fixture.create(id).await;
        fixture.advance_ms(10);
    }
    fixture.create_ready(4).await;
    fixture.end(4).await;
    let deadline = |place: u64| NOON.after_ms(10 * place + fixture.policy.start_ms);

    let none = fixture.store.due(Timestamp(deadline(0).0 - 1), 10).await.unwrap();
    let all = fixture.store.due(deadline(2), 10).await.unwrap();
    let first = fixture.store.due(deadline(2), 1).await.unwrap();

    assert_eq!(none, []);
    let due: Vec<_> = all.iter().map(|due| (due.id.0, due.owner, due.deadline)).collect();
    let wanted = [(3, NODE, deadline(0)), (1, NODE, deadline(1)), (2, NODE, deadline(2))];
    assert_eq!(due, wanted);
    assert_eq!(first, all[..1]);
}

pub async fn the_next_deadline_is_the_earliest_of_all(tested: &dyn TestedStore) {
    let mut fixture = StoreFixture::new(tested);
    assert_eq!(fixture.store.next_deadline().await.unwrap(), None);
    fixture.create(1).await;
    fixture.advance_ms(10);
    fixture.create(2).await;
    let next = fixture.store.next_deadline().await.unwrap();

    fixture.end(1).await;

    assert_eq!(next, Some(NOON.after_ms(fixture.policy.start_ms)));
    assert_eq!(
        fixture.store.next_deadline().await.unwrap(),
        Some(NOON.after_ms(10 + fixture.policy.start_ms))
    );
    fixture.end(2).await;
    assert_eq!(fixture.store.next_deadline().await.unwrap(), None);
}

pub async fn effects_follow_the_state(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create(1).await;
    let launch = fixture.store.effects_of_node(NODE).await.unwrap();
    assert_eq!(launch, fixture.sandbox(1).await.effects());
    assert!(matches!(launch[..], [ref effect] if effect.kind == EffectKind::Launch));

    let fence = launch[0].pending.fence;
    fixture.step(1, Event::Launched { fence }).await;
    let probe = fixture.store.effects_of_node(NODE).await.unwrap();
    assert!(matches!(probe[..], [ref effect] if effect.kind == EffectKind::Probe));

    fixture.end(1).await;
    assert_eq!(fixture.store.effects_of_node(NODE).await.unwrap(), []);
}

pub async fn effects_belong_to_the_node_that_runs_them(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    let other = StoreFixture::new(tested).at(OTHER_NODE, NOON);
    other.execute(1, 5).await;
    fixture.execute(1, 6).await;

    let (of_one, of_other) = (
        fixture.store.effects_of_node(NODE).await.unwrap(),
        fixture.store.effects_of_node(OTHER_NODE).await.unwrap(),
    );

    let effects = fixture.sandbox(1).await.effects();
    assert_eq!(effects.len(), 2);
    assert!(effects.iter().filter(|effect| effect.pending.node == NODE).eq(&of_one));
    assert!(effects.iter().filter(|effect| effect.pending.node == OTHER_NODE).eq(&of_other));
    assert_eq!((of_one.len(), of_other.len()), (1, 1));
}

pub async fn sandboxes_of_a_node_are_those_it_owns_or_runs_effects_for(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    let other = StoreFixture::new(tested).at(OTHER_NODE, NOON);
    fixture.create_ready(1).await;
    fixture.create_ready(2).await;
    other.create_ready(3).await;
    other.execute(2, 5).await;
    fixture.create_ready(4).await;
    fixture.end(4).await;

    let (of_one, of_other) = (
        fixture.store.sandboxes_of_node(NODE).await.unwrap(),
        fixture.store.sandboxes_of_node(OTHER_NODE).await.unwrap(),
    );

    assert_eq!(of_one, [SandboxId(1), SandboxId(2)]);
    assert_eq!(of_other, [SandboxId(2), SandboxId(3)]);
    let (dead, rebooted) = (NODE, false);
    other.request(1, Request::Adopt { dead, rebooted }).await;
    assert_eq!(fixture.store.sandboxes_of_node(NODE).await.unwrap(), [SandboxId(2)]);
}

pub async fn sandboxes_are_listed_in_pages_by_their_ids(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    for id in [5, 1, 4, 2, 3] {
        fixture.create_ready(id).await;
    }
    fixture.execute(3, 7).await;
    fixture.execute(3, 8).await;
    fixture.end(2).await;
    let ids = |rows: &[Row]| rows.iter().map(|row| row.id().0).collect::<Vec<_>>();
    let list = async |filter, after: Option<u128>, limit| {
        let rows = fixture.store.list(filter, after.map(SandboxId), limit).await.unwrap();
        ids(&rows)
    };

    assert_eq!(list(SandboxFilter::All, None, 10).await, [1, 2, 3, 4, 5]);
    assert_eq!(list(SandboxFilter::Present, None, 10).await, [1, 3, 4, 5]);
    assert_eq!(list(SandboxFilter::Settled, None, 10).await, [2]);
    assert_eq!(list(SandboxFilter::Present, None, 2).await, [1, 3]);
    assert_eq!(list(SandboxFilter::Present, Some(3), 2).await, [4, 5]);
    assert_eq!(list(SandboxFilter::All, Some(5), 2).await, [] as [u128; 0]);
    let page = fixture.store.list(SandboxFilter::Present, Some(SandboxId(1)), 1).await.unwrap();
    match &page[..] {
        [Row::Readable(stored)] => assert_eq!(stored.sandbox, fixture.sandbox(3).await),
        other => panic!("{other:?}"),
    }
}

pub async fn totals_are_the_sum_over_all_sandboxes(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    for id in 1..=4 {
        fixture.create_ready(id).await;
    }
    fixture.end(2).await;
    fixture.request(3, Request::Forget).await;
    fixture.stop_succeeds(3).await;

    let totals = fixture.store.totals().await.unwrap();

    assert_eq!((totals.created, totals.destroyed, totals.present()), (4, 2, 2));
    assert_eq!(totals.attested, 0);
    let taken = totals.taken;
    assert_eq!((taken.memory_mb, taken.disk_mb, taken.processes), (2 * MEMORY_MB, 20 * MEMORY_MB, 16));
}

pub async fn attested_sandboxes_are_counted_separately(tested: &dyn TestedStore) {
    let mut fixture = StoreFixture::new(tested);
    fixture.policy.stop_attempts = 1;
    fixture.create_ready(1).await;
    fixture.create_ready(2).await;
    fixture.end(2).await;
    let (cause, grace_ms) = (pinfold_lifecycle::Cause::StoppedByUser, Some(0));
    fixture.request(1, Request::Stop { cause, grace_ms }).await;
    let (fence, outcome) = (fixture.last_fence(1).await, StopOutcome::Unknown { why: "no answer".into() });
    fixture.step(1, Event::Stopped { fence, outcome }).await;

    let (by, reason) = ("operator".into(), "the host is scrap".into());
    fixture.request(1, Request::Attest { by, reason }).await;

    let totals = fixture.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed, totals.attested), (2, 2, 1));
}

pub async fn a_stray_counts_as_one_more_created_and_destroyed(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    fixture.end(1).await;
    let generation = Generation(9);
    fixture.request(1, Request::LeaseStray { generation }).await;
    let found = fixture.store.totals().await.unwrap();

    fixture.stop_succeeds(1).await;

    let gone = fixture.store.totals().await.unwrap();
    assert_eq!((found.created, found.destroyed, found.present()), (2, 1, 1));
    assert_eq!(found.taken.memory_mb, MEMORY_MB);
    assert_eq!((gone.created, gone.destroyed, gone.taken.memory_mb), (2, 2, 0));
    assert!(matches!(fixture.sandbox(1).await.life, Life::Ended { .. }));
}
