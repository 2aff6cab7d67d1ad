//! Promises about the history, and about learning from it what others have changed.

use pinfold_lifecycle::{Event, Fact, Request, SandboxId};

use super::Subject;
use super::world::{NODE, NOON, World};
use crate::{Changes, Seq};

pub async fn history_comes_in_pages_of_one_sandbox_or_of_all(subject: &dyn Subject) {
    let world = World::over(subject);
    world.create(1).await;
    world.create(2).await;
    world.end(1).await;

    let all = world.store.history(None, Seq(0), 100).await.unwrap();
    let first = world.store.history(None, Seq(0), 3).await.unwrap();
    let rest = world.store.history(None, first[2].seq, 100).await.unwrap();
    let of_two = world.store.history(Some(SandboxId(2)), Seq(0), 100).await.unwrap();

    assert!(all.is_sorted_by(|a, b| a.seq < b.seq));
    assert_eq!([first, rest].concat(), all);
    let of_two_in_all: Vec<_> = all.iter().filter(|row| row.sandbox == SandboxId(2)).collect();
    assert!(of_two.iter().eq(of_two_in_all));
    assert_eq!(of_two[0].record.fact, Fact::Created);
    assert_eq!((of_two[0].record.at, of_two[0].record.by), (NOON, NODE));
    assert!(matches!(all.last().unwrap().record.fact, Fact::Ended { .. }));
}

pub async fn the_last_record_is_that_of_its_own_sandbox(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    world.live(2).await;

    let last = world.store.last_record(SandboxId(1)).await.unwrap();
    let nobodys = world.store.last_record(SandboxId(3)).await.unwrap();

    let all = world.store.history(Some(SandboxId(1)), Seq(0), 100).await.unwrap();
    assert_eq!(last.as_ref(), all.last());
    assert_eq!(nobodys, None);
}

pub async fn changes_name_each_sandbox_once(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    world.live(2).await;
    world.live(3).await;
    let all = world.store.changes(Seq(0)).await.unwrap();
    world.execute(2, 5).await;
    world.execute(2, 6).await;
    let nothing_before = world.store.changes(all.seen).await.unwrap();

    let nothing = world.store.changes(nothing_before.seen).await.unwrap();

    assert_eq!(all.sandboxes, [SandboxId(1), SandboxId(2), SandboxId(3)]);
    assert_eq!(nothing_before.sandboxes, [SandboxId(2)]);
    assert!(nothing_before.seen > all.seen);
    let (sandboxes, seen) = (vec![], nothing_before.seen);
    assert_eq!(nothing, Changes { sandboxes, seen });
}

pub async fn a_change_without_a_record_is_a_change_too(subject: &dyn Subject) {
    let mut world = World::over(subject);
    world.live(1).await;
    let seen = world.store.changes(Seq(0)).await.unwrap().seen;
    // A routine check begins.
    world.later(world.policy.probe_every_ms);
    world.step(1, Event::TimePassed).await;

    let changes = world.store.changes(seen).await.unwrap();

    assert_eq!(world.store.history(None, seen, 10).await.unwrap(), []);
    assert_eq!(changes.sandboxes, [SandboxId(1)]);
    assert!(changes.seen > seen);
}

pub async fn a_forgotten_sandbox_is_among_the_changes(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    world.ask(1, Request::Forget).await;
    let seen = world.store.changes(Seq(0)).await.unwrap().seen;
    world.gone(1).await;

    let changes = world.store.changes(seen).await.unwrap();

    assert_eq!(changes.sandboxes, [SandboxId(1)]);
}
