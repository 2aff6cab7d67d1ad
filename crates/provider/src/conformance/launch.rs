//! Launching an instance: marker, permit, processes, in this order, repeatably.

use std::future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pinfold_lifecycle::StopOutcome;
use tokio::sync::Notify;

use super::TestCommand;
use super::harness::{Harness, fails};
use super::permit::{CheckWith, Granted};
use crate::{Found, InstanceId, StartError, WaitError};

pub(super) async fn a_started_instance_is_complete_and_the_only_one(harness: Harness) {
    let instance = harness.instance(harness.fixture.fresh_sandbox(), 7);

    harness.start(instance).await;

    let seen = harness.whole(instance).await;
    assert!(seen.executions.is_empty(), "a new instance has executions: {:?}", seen.executions);
}

pub(super) async fn repeating_a_start_makes_no_second_instance(harness: Harness) {
    let instance = harness.started().await;
    let execution = harness.run(instance, TestCommand::RunUntilKilled).await;

    harness.start(instance).await;
    harness.another_process().start(instance).await;

    harness.runs(instance, execution).await;
    let found = harness.discovered(instance.sandbox).await;
    assert_eq!(found, [Found { instance, whole: true }]);
}

/// At least one of the two launches reports success.
pub(super) async fn two_concurrent_launches_make_one_instance(harness: Harness) {
    let instance = harness.fresh_instance();
    let other = harness.another_process();

    let (one, two) = tokio::join!(harness.launch(instance, &Granted), other.launch(instance, &Granted));

    assert!(one.is_ok() || two.is_ok(), "neither launch succeeded: {one:?}, {two:?}");
    harness.whole(instance).await;
}

pub(super) async fn a_launch_that_is_no_longer_wanted_leaves_nothing_behind(harness: Harness) {
    let instance = harness.fresh_instance();
    let asked = AtomicUsize::new(0);
    let permit = CheckWith(|| async {
        asked.fetch_add(1, Ordering::Relaxed);
        false
    });

    let started = harness.launch(instance, &permit).await;

    assert_eq!(started, Err(StartError::NoLongerWanted));
    assert!(asked.into_inner() > 0, "the permit was not checked");
    harness.absent(instance.sandbox).await;
}

pub(super) async fn the_permit_is_checked_after_the_marker_is_set(harness: Harness) {
    let instance = harness.fresh_instance();
    let observations = Mutex::new(Vec::new());
    let permit = CheckWith(|| async {
        let other = harness.another_process();
        let observation = (other.instances(instance.sandbox).await, other.discovered(instance.sandbox).await);
        observations.lock().expect("not poisoned").push(observation);
        true
    });

    let started = harness.launch(instance, &permit).await;

    assert_eq!(started, Ok(()));
    let observations = observations.into_inner().expect("not poisoned");
    assert!(!observations.is_empty(), "the permit was not checked");
    for (seen, found) in observations {
        assert!(!seen.is_empty(), "no marker existed when the permit was checked");
        let whole = seen.iter().any(|seen| seen.whole);
        assert!(!whole, "the instance was complete before the permit was checked: {seen:?}");
        assert_eq!(found, [Found { instance, whole: false }], "discovered when the permit was checked");
    }
}

/// The stop removed the marker, so a late launch makes nothing.
pub(super) async fn a_stop_between_marker_and_processes_leaves_no_instance(harness: Harness) {
    let instance = harness.fresh_instance();
    let outcome = Mutex::new(None);
    let permit = CheckWith(|| async {
        let stopped = harness.another_process().stop(instance).await;
        *outcome.lock().expect("not poisoned") = Some(stopped);
        true
    });

    let started = harness.launch(instance, &permit).await;

    fails(&started, "a launch that was stopped half-way");
    let outcome = outcome.into_inner().expect("not poisoned");
    assert!(matches!(outcome, Some(StopOutcome::Gone(_))), "the stop's outcome was {outcome:?}");
    harness.absent(instance.sandbox).await;
}

pub(super) async fn an_incomplete_instance_is_found_and_stopped(harness: Harness) {
    let instance = harness.fresh_instance();

    launch_half(&harness, instance).await;

    let instances = harness.instances(instance.sandbox).await;
    assert!(!instances.is_empty(), "the incomplete instance is not observed");
    assert!(
        instances.iter().all(|seen| !seen.whole),
        "an incomplete instance is reported complete: {instances:?}"
    );
    assert_eq!(harness.discovered(instance.sandbox).await, [Found { instance, whole: false }]);
    harness.stopped(instance).await;
    harness.absent(instance.sandbox).await;
}

pub(super) async fn a_launch_dropped_half_way_can_be_repeated(harness: Harness) {
    let instance = harness.fresh_instance();
    launch_half(&harness, instance).await;

    harness.start(instance).await;

    harness.whole(instance).await;
}

pub(super) async fn a_new_generation_shares_nothing_with_the_old_one(harness: Harness) {
    let old = harness.started().await;
    let execution = harness.run(old, TestCommand::Succeed).await;
    harness.stopped(old).await;

    let new = harness.instance(old.sandbox, 2);
    harness.start(new).await;

    let seen = harness.whole(new).await;
    assert!(seen.executions.is_empty(), "it lists executions of the old generation: {seen:?}");
    let waited = harness.provider.wait(new, execution).await;
    assert_eq!(waited, Err(WaitError::NoSuchExecution));
    fails(&harness.provider.usage(old).await, "usage of the old generation");
}

/// Starts a launch and drops it while it waits for its permit, like a crash.
async fn launch_half(harness: &Harness, instance: InstanceId) {
    let asked = Notify::new();
    let permit = CheckWith(|| async {
        asked.notify_one();
        future::pending().await
    });
    tokio::select! {
        started = harness.launch(instance, &permit) => panic!("the launch did not wait for its permit: {started:?}"),
        () = asked.notified() => {}
    }
}
