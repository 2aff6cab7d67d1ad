//! Promises about forgetting by age: only what is settled, and each kind of thing by its own time.

use pinfold_lifecycle::{AdmissionLimits, ExecutionId, SandboxId, Timestamp};

use super::Subject;
use super::world::{NOON, World};
use crate::{Created, Filter, Retention, Seq};

const NEVER: Timestamp = Timestamp(0);

fn retention(records_before: Timestamp) -> Retention {
    Retention { records_before, history_before: NEVER, now: NOON }
}

pub async fn only_what_is_settled_is_pruned(subject: &dyn Subject) {
    let mut world = World::over(subject);
    for id in 1..=3 {
        world.live(id).await;
        world.execute(id, 10 + id).await;
    }
    world.end(1).await;
    world.later(1_000);
    world.end(2).await;

    let prunable = world.store.prunable(retention(world.now)).await.unwrap();
    let pruned = world.store.prune(retention(world.now), 10).await.unwrap();
    let left_to_prune = world.store.prunable(retention(world.now)).await.unwrap();
    let again = world.store.prune(retention(world.now), 10).await.unwrap();
    let late = world.store.prune(retention(world.now.after_ms(1)), 10).await.unwrap();

    let gone = [pruned, again, late].map(|it| (it.sandboxes, it.more));
    assert_eq!(gone, [(1, false), (0, false), (1, false)]);
    assert_eq!((prunable, left_to_prune), (1, 0), "it is told ahead");
    let left = world.store.list(Filter::All, None, 10).await.unwrap();
    assert_eq!(left.iter().map(|row| row.id().0).collect::<Vec<_>>(), [3]);
    assert!(world.store.execution(ExecutionId(11)).await.unwrap().is_none());
    assert!(world.store.execution(ExecutionId(13)).await.unwrap().is_some());
    let totals = world.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed), (3, 2));
    assert_ne!(world.store.history(Some(SandboxId(1)), Seq(0), 9).await.unwrap(), []);
}

pub async fn history_and_keys_are_pruned_by_their_own_times(subject: &dyn Subject) {
    let mut world = World::over(subject);
    let keyed = world.with_key(1, "key", "request", 1_000);
    world.store.create(keyed, AdmissionLimits::default()).await.unwrap();
    world.later(1_000);
    world.create(2).await;
    let moment = Retention { records_before: NEVER, history_before: world.now, now: world.now };

    world.store.prune(moment, 10).await.unwrap();

    assert_eq!(world.store.history(Some(SandboxId(1)), Seq(0), 9).await.unwrap(), []);
    assert_ne!(world.store.history(Some(SandboxId(2)), Seq(0), 9).await.unwrap(), []);
    assert!(world.store.load(SandboxId(1)).await.unwrap().is_some());
    // The clock that asks is a second behind: for it the key would still hold, were it there.
    let behind = World::over(subject);
    let again =
        behind.store.create(behind.with_key(3, "key", "another", 1_000), AdmissionLimits::default()).await;
    assert!(matches!(again, Ok(Created::New(_))));
}

pub async fn at_most_so_many_are_pruned_at_once(subject: &dyn Subject) {
    let world = World::over(subject);
    for id in 1..=5 {
        world.live(id).await;
        world.end(id).await;
    }
    let later = retention(NOON.after_ms(1));

    let mut pruned = Vec::new();
    for _ in 0..4 {
        pruned.push(world.store.prune(later, 2).await.unwrap());
    }

    let gone: Vec<_> = pruned.into_iter().map(|it| (it.sandboxes, it.more)).collect();
    assert_eq!(gone, [(2, true), (2, true), (1, false), (0, false)]);
}
