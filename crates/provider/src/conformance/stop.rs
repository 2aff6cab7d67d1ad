//! Stopping an instance: with proof, repeatably, and only the instance meant.

use pinfold_lifecycle::StopOutcome;

use super::TestCommand;
use super::harness::{Harness, within};
use super::permit::Granted;
use crate::StartError;

pub(super) async fn a_stopped_instance_is_proven_gone(harness: Harness) {
    let instance = harness.started().await;

    let receipt = harness.stopped(instance).await;

    assert_eq!(receipt.generation, instance.generation);
    assert!(receipt.proves_absence(), "the receipt does not prove it: {receipt:?}");
    assert_eq!(receipt.attested, None, "a verified receipt needs no attestation");
    harness.absent(instance.sandbox).await;
}

pub(super) async fn stopping_twice_answers_gone_twice(harness: Harness) {
    let instance = harness.started().await;

    harness.stopped(instance).await;
    let receipt = harness.stopped(instance).await;

    assert!(receipt.proves_absence(), "the receipt does not prove it: {receipt:?}");
    harness.absent(instance.sandbox).await;
}

pub(super) async fn stopping_an_unknown_instance_answers_gone(harness: Harness) {
    let instance = harness.fresh_instance();

    let receipt = harness.stopped(instance).await;

    assert!(receipt.proves_absence(), "the receipt does not prove it: {receipt:?}");
    harness.absent(instance.sandbox).await;
}

/// The answer must not be `Gone`, since that frees the lease.
pub(super) async fn a_stop_leaves_later_generations_alone(harness: Harness) {
    let sandbox = harness.fixture.fresh_sandbox();
    let (earlier, later) = (harness.instance(sandbox, 1), harness.instance(sandbox, 2));
    harness.start(later).await;
    let execution = harness.run(later, TestCommand::RunUntilKilled).await;

    let outcome = harness.stop(earlier).await;

    harness.runs(later, execution).await;
    assert!(
        !matches!(outcome, StopOutcome::Gone(_)),
        "a later instance is present and the stop's outcome is {outcome:?}"
    );
}

/// A provider may refuse to start the second instance beside the first.
pub(super) async fn a_stop_ends_earlier_generations_too(harness: Harness) {
    let earlier = harness.started().await;
    let later = harness.instance(earlier.sandbox, 2);
    let started = harness.launch(later, &Granted).await;
    assert!(
        matches!(started, Ok(()) | Err(StartError::Failed { .. })),
        "a launch beside an earlier instance ended with {started:?}"
    );

    let receipt = harness.stopped(later).await;

    assert!(receipt.proves_absence(), "the receipt does not prove it: {receipt:?}");
    harness.absent(earlier.sandbox).await;
}

pub(super) async fn a_stop_ends_running_executions(harness: Harness) {
    let instance = harness.started().await;
    let execution = harness.run(instance, TestCommand::RunUntilKilled).await;
    let provider = harness.another_process().provider;
    let waiting = tokio::spawn(async move { provider.wait(instance, execution).await });
    harness.runs(instance, execution).await;

    harness.stopped(instance).await;

    let waited = within("the end of a wait in a stopped instance", waiting).await;
    let waited = waited.unwrap_or_else(|error| panic!("the wait panicked: {error}"));
    let succeeded = waited.as_ref().is_ok_and(|outcome| outcome.exit_code == Some(0));
    assert!(!succeeded, "the stopped execution succeeded: {waited:?}");
    harness.absent(instance.sandbox).await;
}

/// From any process on the host, without local state.
pub(super) async fn a_stop_needs_no_local_state(harness: Harness) {
    let instance = harness.started().await;
    harness.run(instance, TestCommand::RunUntilKilled).await;

    let other = harness.another_process();
    other.whole(instance).await;
    other.stopped(instance).await;

    other.absent(instance.sandbox).await;
    harness.absent(instance.sandbox).await;
}

pub(super) async fn stopping_one_sandbox_leaves_others_running(harness: Harness) {
    let (ended, neighbour) = (harness.started().await, harness.started().await);
    let execution = harness.run(neighbour, TestCommand::RunUntilKilled).await;

    harness.stopped(ended).await;

    harness.absent(ended.sandbox).await;
    harness.runs(neighbour, execution).await;
}
