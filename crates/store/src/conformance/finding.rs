//! Promises about what is found without knowing its id: what is due, whose work it is, and what all add up to.

use pinfold_lifecycle::{EffectKind, Event, Generation, Life, Request, SandboxId, StopOutcome, Timestamp};

use super::Subject;
use super::world::{MEMORY_MB, NODE, NOON, OTHER_NODE, World};
use crate::{Filter, Row};

pub async fn what_is_due_comes_in_the_order_of_its_deadlines(subject: &dyn Subject) {
    let mut world = World::over(subject);
    for id in [3, 1, 2] {
        world.create(id).await;
        world.later(10);
    }
    world.live(4).await;
    world.end(4).await;
    let deadline = |place: u64| NOON.after_ms(10 * place + world.policy.start_ms);

    let none = world.store.due(Timestamp(deadline(0).0 - 1), 10).await.unwrap();
    let all = world.store.due(deadline(2), 10).await.unwrap();
    let first = world.store.due(deadline(2), 1).await.unwrap();

    assert_eq!(none, []);
    let due: Vec<_> = all.iter().map(|due| (due.id.0, due.owner, due.deadline)).collect();
    let wanted = [(3, NODE, deadline(0)), (1, NODE, deadline(1)), (2, NODE, deadline(2))];
    assert_eq!(due, wanted);
    assert_eq!(first, all[..1]);
}

pub async fn the_next_deadline_is_the_earliest_of_all(subject: &dyn Subject) {
    let mut world = World::over(subject);
    assert_eq!(world.store.next_deadline().await.unwrap(), None);
    world.create(1).await;
    world.later(10);
    world.create(2).await;
    let next = world.store.next_deadline().await.unwrap();

    world.end(1).await;

    assert_eq!(next, Some(NOON.after_ms(world.policy.start_ms)));
    assert_eq!(world.store.next_deadline().await.unwrap(), Some(NOON.after_ms(10 + world.policy.start_ms)));
    world.end(2).await;
    assert_eq!(world.store.next_deadline().await.unwrap(), None);
}

pub async fn effects_follow_the_state(subject: &dyn Subject) {
    let world = World::over(subject);
    world.create(1).await;
    let launch = world.store.effects_of(NODE).await.unwrap();
    assert_eq!(launch, world.sandbox(1).await.effects());
    assert!(matches!(launch[..], [ref effect] if effect.work == EffectKind::Launch));

    let ticket = launch[0].duty.ticket;
    world.step(1, Event::Launched { ticket }).await;
    let probe = world.store.effects_of(NODE).await.unwrap();
    assert!(matches!(probe[..], [ref effect] if effect.work == EffectKind::Probe));

    world.end(1).await;
    assert_eq!(world.store.effects_of(NODE).await.unwrap(), []);
}

pub async fn effects_belong_to_the_node_that_was_asked(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    let other = World::over(subject).at(OTHER_NODE, NOON);
    other.execute(1, 5).await;
    world.execute(1, 6).await;

    let (of_one, of_other) =
        (world.store.effects_of(NODE).await.unwrap(), world.store.effects_of(OTHER_NODE).await.unwrap());

    let effects = world.sandbox(1).await.effects();
    assert_eq!(effects.len(), 2);
    assert!(effects.iter().filter(|effect| effect.duty.by == NODE).eq(&of_one));
    assert!(effects.iter().filter(|effect| effect.duty.by == OTHER_NODE).eq(&of_other));
    assert_eq!((of_one.len(), of_other.len()), (1, 1));
}

pub async fn what_a_node_leaves_is_what_it_owns_or_works_for(subject: &dyn Subject) {
    let world = World::over(subject);
    let other = World::over(subject).at(OTHER_NODE, NOON);
    world.live(1).await;
    world.live(2).await;
    other.live(3).await;
    other.execute(2, 5).await;
    world.live(4).await;
    world.end(4).await;

    let (of_one, of_other) =
        (world.store.left_by(NODE).await.unwrap(), world.store.left_by(OTHER_NODE).await.unwrap());

    assert_eq!(of_one, [SandboxId(1), SandboxId(2)]);
    assert_eq!(of_other, [SandboxId(2), SandboxId(3)]);
    let (dead, rebooted) = (NODE, false);
    other.ask(1, Request::Adopt { dead, rebooted }).await;
    assert_eq!(world.store.left_by(NODE).await.unwrap(), [SandboxId(2)]);
}

pub async fn sandboxes_are_listed_in_pages_by_their_ids(subject: &dyn Subject) {
    let world = World::over(subject);
    for id in [5, 1, 4, 2, 3] {
        world.live(id).await;
    }
    world.execute(3, 7).await;
    world.execute(3, 8).await;
    world.end(2).await;
    let ids = |rows: &[Row]| rows.iter().map(|row| row.id().0).collect::<Vec<_>>();
    let list = async |filter, after: Option<u128>, limit| {
        let rows = world.store.list(filter, after.map(SandboxId), limit).await.unwrap();
        ids(&rows)
    };

    assert_eq!(list(Filter::All, None, 10).await, [1, 2, 3, 4, 5]);
    assert_eq!(list(Filter::Present, None, 10).await, [1, 3, 4, 5]);
    assert_eq!(list(Filter::Settled, None, 10).await, [2]);
    assert_eq!(list(Filter::Present, None, 2).await, [1, 3]);
    assert_eq!(list(Filter::Present, Some(3), 2).await, [4, 5]);
    assert_eq!(list(Filter::All, Some(5), 2).await, [] as [u128; 0]);
    let page = world.store.list(Filter::Present, Some(SandboxId(1)), 1).await.unwrap();
    match &page[..] {
        [Row::Readable(stored)] => assert_eq!(stored.sandbox, world.sandbox(3).await),
        other => panic!("{other:?}"),
    }
}

pub async fn totals_are_the_sum_over_all_sandboxes(subject: &dyn Subject) {
    let world = World::over(subject);
    for id in 1..=4 {
        world.live(id).await;
    }
    world.end(2).await;
    world.ask(3, Request::Forget).await;
    world.gone(3).await;

    let totals = world.store.totals().await.unwrap();

    assert_eq!((totals.created, totals.destroyed, totals.present()), (4, 2, 2));
    assert_eq!(totals.attested, 0);
    let taken = totals.taken;
    assert_eq!((taken.memory_mb, taken.disk_mb, taken.processes), (2 * MEMORY_MB, 20 * MEMORY_MB, 16));
}

pub async fn what_was_attested_is_counted_apart(subject: &dyn Subject) {
    let mut world = World::over(subject);
    world.policy.stop_attempts = 1;
    world.live(1).await;
    world.live(2).await;
    world.end(2).await;
    let (cause, forced) = (pinfold_lifecycle::Cause::StoppedByUser, true);
    world.ask(1, Request::Stop { cause, forced }).await;
    let (ticket, outcome) = (world.ticket(1).await, StopOutcome::Unknown { why: "no answer".into() });
    world.step(1, Event::Stopped { ticket, outcome }).await;

    let (by, reason) = ("operator".into(), "the host is scrap".into());
    world.ask(1, Request::Attest { by, reason }).await;

    let totals = world.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed, totals.attested), (2, 2, 1));
}

pub async fn a_stray_is_one_more_created_and_destroyed(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    world.end(1).await;
    let generation = Generation(9);
    world.ask(1, Request::LeaseStray { generation }).await;
    let found = world.store.totals().await.unwrap();

    world.gone(1).await;

    let gone = world.store.totals().await.unwrap();
    assert_eq!((found.created, found.destroyed, found.present()), (2, 1, 1));
    assert_eq!(found.taken.memory_mb, MEMORY_MB);
    assert_eq!((gone.created, gone.destroyed, gone.taken.memory_mb), (2, 2, 0));
    assert!(matches!(world.sandbox(1).await.life, Life::Ended { .. }));
}
