//! Killing executions: they end, and are never started afterwards.

use std::sync::Mutex;

use pinfold_lifecycle::ProcessObservation;

use super::TestCommand;
use super::harness::{Harness, refused, within};
use super::permit::CheckWith;
use crate::KillOutcome;

pub(super) async fn a_kill_ends_a_running_execution(harness: Harness) {
    let instance = harness.started().await;
    let execution = harness.run(instance, TestCommand::RunUntilKilled).await;
    let provider = harness.provider.clone();
    let waiting = tokio::spawn(async move { provider.wait(instance, execution).await });
    harness.runs(instance, execution).await;

    assert_eq!(harness.provider.kill(instance, execution).await, KillOutcome::Gone);

    let waited = within("the end of a wait for a killed execution", waiting).await;
    let waited = waited.unwrap_or_else(|error| panic!("the wait panicked: {error}"));
    let outcome = waited.unwrap_or_else(|error| panic!("{execution} could not be waited for: {error}"));
    assert_ne!(outcome.exit_code, Some(0), "the killed execution succeeded");
    assert_eq!(harness.seen(instance, execution).await, Some(ProcessObservation::Ended(outcome)));
}

pub(super) async fn a_kill_leaves_other_executions_alone(harness: Harness) {
    let instance = harness.started().await;
    let killed = harness.run(instance, TestCommand::RunUntilKilled).await;
    let other = harness.run(instance, TestCommand::RunUntilKilled).await;

    assert_eq!(harness.provider.kill(instance, killed).await, KillOutcome::Gone);

    harness.outcome(instance, killed).await;
    harness.runs(instance, other).await;
}

pub(super) async fn a_kill_after_the_end_changes_no_outcome(harness: Harness) {
    let instance = harness.started().await;
    let execution = harness.run(instance, TestCommand::ExitWith3).await;
    let outcome = harness.outcome(instance, execution).await;

    assert_eq!(harness.provider.kill(instance, execution).await, KillOutcome::Gone);
    assert_eq!(harness.provider.kill(instance, execution).await, KillOutcome::Gone);

    assert_eq!(harness.outcome(instance, execution).await, outcome);
}

pub(super) async fn an_execution_killed_before_its_start_is_never_started(harness: Harness) {
    let instance = harness.started().await;
    let execution = harness.fixture.fresh_execution();

    assert_eq!(harness.provider.kill(instance, execution).await, KillOutcome::Gone);

    for process in [&harness, &harness.another_process()] {
        let answer = process.exec(instance, execution, TestCommand::RunUntilKilled).await;
        refused(&answer, "an execution killed before its start");
    }
    let seen = harness.seen(instance, execution).await;
    assert!(!matches!(seen, Some(ProcessObservation::Running { .. })), "the execution was refused and runs");
}

/// The provider may refuse the second exec or accept it as a repetition; nothing may run.
pub(super) async fn a_killed_execution_is_not_started_again(harness: Harness) {
    let instance = harness.started().await;
    let execution = harness.run(instance, TestCommand::RunUntilKilled).await;
    assert_eq!(harness.provider.kill(instance, execution).await, KillOutcome::Gone);
    let outcome = harness.outcome(instance, execution).await;

    let _ = harness.exec(instance, execution, TestCommand::RunUntilKilled).await;

    assert_eq!(harness.seen(instance, execution).await, Some(ProcessObservation::Ended(outcome.clone())));
    assert_eq!(harness.outcome(instance, execution).await, outcome);
}

/// Unless the kill was answered with `Unknown`.
pub(super) async fn a_kill_during_the_launch_is_remembered(harness: Harness) {
    let instance = harness.fresh_instance();
    let execution = harness.fixture.fresh_execution();
    let killed = Mutex::new(None);
    let permit = CheckWith(|| async {
        let answer = harness.provider.kill(instance, execution).await;
        *killed.lock().expect("not poisoned") = Some(answer);
        true
    });

    let started = harness.launch(instance, &permit).await;

    assert_eq!(started, Ok(()));
    match killed.into_inner().expect("not poisoned") {
        None => panic!("the permit was not checked"),
        Some(KillOutcome::Unknown { .. }) => {}
        Some(KillOutcome::Gone) => {
            let answer = harness.exec(instance, execution, TestCommand::RunUntilKilled).await;
            refused(&answer, "an execution killed before its start");
        }
    }
}
