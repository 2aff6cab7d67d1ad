//! Promises about tries: a wait between two of them is due like any deadline, and every try is read back as it was.

use pinfold_lifecycle::{Event, ExecutionId, Lease, Policy, Recovery, SandboxId, StopOutcome, Timestamp};

use super::Subject;
use super::world::{NODE, World, receipt};
use crate::Due;

/// A sandbox whose only launch so far has failed, and is proven to have left nothing.
async fn between_two_tries(world: &World) {
    world.create(1).await;
    world.execute(1, 9).await;
    let ticket = world.ticket(1).await;
    world.step(1, Event::LaunchFailed { ticket, why: "no memory".into() }).await;
    let outcome = StopOutcome::Gone(Box::new(receipt(&world.sandbox(1).await, world.now)));
    let ticket = world.ticket(1).await;
    world.step(1, Event::Stopped { ticket, outcome }).await;
}

fn tried_again(subject: &dyn Subject) -> World {
    let recovery = Some(Recovery { tries: 3, backoff_ms: 500 });
    World { policy: Policy { recovery, ..Policy::default() }, ..World::over(subject) }
}

pub async fn the_next_try_is_due_and_its_place_stays_taken(subject: &dyn Subject) {
    let world = tried_again(subject);

    between_two_tries(&world).await;

    let next_at = world.now.after_ms(500);
    let due = |now: Timestamp| world.store.due(now, 9);
    assert!(due(world.now.after_ms(499)).await.unwrap().is_empty());
    let id = SandboxId(1);
    assert_eq!(due(next_at).await.unwrap(), [Due { id, owner: NODE, deadline: next_at }]);
    assert_eq!(world.store.totals().await.unwrap().present(), 1);
}

pub async fn every_try_is_read_back_with_its_receipt(subject: &dyn Subject) {
    let world = tried_again(subject);
    between_two_tries(&world).await;

    let stored = world.load(1).await;
    let row = world.store.execution(ExecutionId(9)).await.unwrap().unwrap();

    assert!(matches!(stored.sandbox.lease, Lease::LaunchWaiting { .. }));
    assert_eq!(stored.policy.recovery, world.policy.recovery);
    assert_eq!(stored.sandbox.executions, std::slice::from_ref(&row.execution));
    let [attempt] = &row.execution.attempts[..] else { panic!("{row:?}") };
    assert_eq!(attempt.end.as_ref().unwrap().why.as_deref(), Some("no memory"));
    assert!(attempt.receipt.as_ref().unwrap().proves_absence());
}
