//! Attempts of recovery: the backoff between two is due like any deadline, and every attempt is read back.

use pinfold_lifecycle::{Event, ExecutionId, Lease, Policy, Recovery, SandboxId, StopOutcome, Timestamp};

use super::TestedStore;
use super::fixture::{NODE, StoreFixture, receipt};
use crate::DueSandbox;

/// A sandbox whose only launch so far has failed and is proven gone.
async fn between_two_tries(fixture: &StoreFixture) {
    fixture.create(1).await;
    fixture.execute(1, 9).await;
    let fence = fixture.last_fence(1).await;
    fixture.step(1, Event::LaunchFailed { fence, why: "no memory".into() }).await;
    let outcome = StopOutcome::Gone(Box::new(receipt(&fixture.sandbox(1).await, fixture.now)));
    let fence = fixture.last_fence(1).await;
    fixture.step(1, Event::Stopped { fence, outcome }).await;
}

fn tried_again(tested: &dyn TestedStore) -> StoreFixture {
    let recovery = Some(Recovery { attempts: 3, backoff_ms: 500 });
    StoreFixture { policy: Policy { recovery, ..Policy::default() }, ..StoreFixture::new(tested) }
}

pub async fn the_next_attempt_is_due_and_its_room_stays_taken(tested: &dyn TestedStore) {
    let fixture = tried_again(tested);

    between_two_tries(&fixture).await;

    let next_at = fixture.now.after_ms(500);
    let due = |now: Timestamp| fixture.store.due(now, 9);
    assert!(due(fixture.now.after_ms(499)).await.unwrap().is_empty());
    let id = SandboxId(1);
    assert_eq!(due(next_at).await.unwrap(), [DueSandbox { id, owner: NODE, deadline: next_at }]);
    assert_eq!(fixture.store.totals().await.unwrap().present(), 1);
}

pub async fn every_attempt_is_read_back_with_its_receipt(tested: &dyn TestedStore) {
    let fixture = tried_again(tested);
    between_two_tries(&fixture).await;

    let stored = fixture.load(1).await;
    let row = fixture.store.execution(ExecutionId(9)).await.unwrap().unwrap();

    assert!(matches!(stored.sandbox.lease, Lease::LaunchWaiting { .. }));
    assert_eq!(stored.policy.recovery, fixture.policy.recovery);
    assert_eq!(stored.sandbox.executions, std::slice::from_ref(&row.execution));
    let [attempt] = &row.execution.attempts[..] else { panic!("{row:?}") };
    assert_eq!(attempt.end.as_ref().unwrap().why.as_deref(), Some("no memory"));
    assert!(attempt.receipt.as_ref().unwrap().proves_absence());
}
