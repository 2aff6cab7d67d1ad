//! Retention: only settled sandboxes are deleted, and each kind of row by its own time.

use pinfold_lifecycle::{AdmissionLimits, ExecutionId, SandboxId, Timestamp};

use super::TestedStore;
use super::fixture::{NOON, StoreFixture};
use crate::{Created, Retention, SandboxFilter, Seq};

const NEVER: Timestamp = Timestamp(0);

fn retention(records_before: Timestamp) -> Retention {
    Retention { records_before, history_before: NEVER, now: NOON }
}

pub async fn only_settled_sandboxes_are_pruned(tested: &dyn TestedStore) {
    let mut fixture = StoreFixture::new(tested);
    for id in 1..=3 {
        fixture.create_ready(id).await;
        fixture.execute(id, 10 + id).await;
    }
    fixture.end(1).await;
    fixture.advance_ms(1_000);
    fixture.end(2).await;

    let prunable = fixture.store.count_prunable(retention(fixture.now)).await.unwrap();
    let pruned = fixture.store.prune(retention(fixture.now), 10).await.unwrap();
    let left_to_prune = fixture.store.count_prunable(retention(fixture.now)).await.unwrap();
    let again = fixture.store.prune(retention(fixture.now), 10).await.unwrap();
    let late = fixture.store.prune(retention(fixture.now.after_ms(1)), 10).await.unwrap();

    let gone = [pruned, again, late].map(|it| (it.sandboxes, it.more));
    assert_eq!(gone, [(1, false), (0, false), (1, false)]);
    assert_eq!((prunable, left_to_prune), (1, 0), "it is listed ahead");
    let left = fixture.store.list(SandboxFilter::All, None, 10).await.unwrap();
    assert_eq!(left.iter().map(|row| row.id().0).collect::<Vec<_>>(), [3]);
    assert!(fixture.store.execution(ExecutionId(11)).await.unwrap().is_none());
    assert!(fixture.store.execution(ExecutionId(13)).await.unwrap().is_some());
    let totals = fixture.store.totals().await.unwrap();
    assert_eq!((totals.created, totals.destroyed), (3, 2));
    assert_ne!(fixture.store.history(Some(SandboxId(1)), Seq(0), 9).await.unwrap(), []);
}

pub async fn history_and_keys_are_pruned_by_their_own_times(tested: &dyn TestedStore) {
    let mut fixture = StoreFixture::new(tested);
    let keyed = fixture.with_key(1, "key", "request", 1_000);
    fixture.store.create(keyed, AdmissionLimits::default()).await.unwrap();
    fixture.advance_ms(1_000);
    fixture.create(2).await;
    let moment = Retention { records_before: NEVER, history_before: fixture.now, now: fixture.now };

    fixture.store.prune(moment, 10).await.unwrap();

    assert_eq!(fixture.store.history(Some(SandboxId(1)), Seq(0), 9).await.unwrap(), []);
    assert_ne!(fixture.store.history(Some(SandboxId(2)), Seq(0), 9).await.unwrap(), []);
    assert!(fixture.store.load(SandboxId(1)).await.unwrap().is_some());
    // A clock one second behind: the key would still be valid for it if it were there.
    let behind = StoreFixture::new(tested);
    let again =
        behind.store.create(behind.with_key(3, "key", "another", 1_000), AdmissionLimits::default()).await;
    assert!(matches!(again, Ok(Created::New(_))));
}

pub async fn one_prune_deletes_at_most_its_limit(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    for id in 1..=5 {
        fixture.create_ready(id).await;
        fixture.end(id).await;
    }
    let later = retention(NOON.after_ms(1));

    let mut pruned = Vec::new();
    for _ in 0..4 {
        pruned.push(fixture.store.prune(later, 2).await.unwrap());
    }

    let gone: Vec<_> = pruned.into_iter().map(|it| (it.sandboxes, it.more)).collect();
    assert_eq!(gone, [(2, true), (2, true), (1, false), (0, false)]);
}
