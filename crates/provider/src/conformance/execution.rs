//! Executions: started once, waited for repeatedly, observed while they run and after.

use pinfold_lifecycle::{OutcomeKind, ProcessObservation};

use super::TestCommand;
use super::harness::{Harness, refused, within};
use crate::{ExecError, WaitError};

pub(super) async fn an_execution_ends_with_its_exit_code(harness: Harness) {
    let instance = harness.started().await;

    let succeeds = harness.run(instance, TestCommand::Succeed).await;
    let fails = harness.run(instance, TestCommand::ExitWith3).await;

    for (execution, code) in [(fails, 3), (succeeds, 0)] {
        let outcome = harness.outcome(instance, execution).await;
        assert_eq!((outcome.kind, outcome.exit_code), (OutcomeKind::Exited, Some(code)));
    }
}

pub(super) async fn wait_can_be_repeated_after_the_end(harness: Harness) {
    let instance = harness.started().await;
    let execution = harness.run(instance, TestCommand::ExitWith3).await;

    let first = harness.outcome(instance, execution).await;
    let again = harness.outcome(instance, execution).await;

    assert_eq!(first.exit_code, Some(3));
    assert_eq!(again, first);
}

pub(super) async fn waiting_for_an_unknown_execution_fails_at_once(harness: Harness) {
    let instance = harness.started().await;
    let unknown = harness.fixture.fresh_execution();

    let waited =
        within("the refusal to wait for an unknown execution", harness.provider.wait(instance, unknown))
            .await;

    assert_eq!(waited, Err(WaitError::NoSuchExecution));
}

/// The repeated command differs, so its outcome would show that it ran.
pub(super) async fn the_same_execution_is_started_once(harness: Harness) {
    let instance = harness.started().await;
    let running = harness.run(instance, TestCommand::RunUntilKilled).await;
    let ended = harness.run(instance, TestCommand::ExitWith3).await;
    harness.outcome(instance, ended).await;

    let other = harness.another_process();
    for execution in [running, ended] {
        let again = other.exec(instance, execution, TestCommand::Succeed).await;
        assert_eq!(again, Ok(()), "repeating an exec is not an error");
    }

    harness.runs(instance, running).await;
    assert_eq!(harness.outcome(instance, ended).await.exit_code, Some(3));
    let executions = harness.whole(instance).await.executions;
    assert_eq!(executions.len(), 2, "more processes than executions: {executions:?}");
}

pub(super) async fn an_execution_for_another_generation_is_refused(harness: Harness) {
    let sandbox = harness.fixture.fresh_sandbox();
    let instance = harness.instance(sandbox, 2);
    harness.start(instance).await;

    for generation in [1, 3] {
        let execution = harness.fixture.fresh_execution();
        let answer =
            harness.exec(harness.instance(sandbox, generation), execution, TestCommand::Succeed).await;
        refused(&answer, "an execution for another generation");
    }

    let executions = harness.whole(instance).await.executions;
    assert!(executions.is_empty(), "the execution was refused and runs: {executions:?}");
}

pub(super) async fn an_execution_in_a_missing_instance_is_refused(harness: Harness) {
    let never_was = harness.fresh_instance();
    let ended = harness.started().await;
    harness.stopped(ended).await;

    for instance in [never_was, ended] {
        let answer = harness.exec(instance, harness.fixture.fresh_execution(), TestCommand::Succeed).await;
        refused(&answer, "an execution in a missing instance");
        harness.absent(instance.sandbox).await;
    }
}

/// Accepts a refusal, a failure, or the shell's exit code 127.
pub(super) async fn a_command_that_cannot_be_found_fails(harness: Harness) {
    let instance = harness.started().await;
    let execution = harness.fixture.fresh_execution();

    match harness.exec(instance, execution, TestCommand::NotFound).await {
        Ok(()) => {
            let outcome = harness.outcome(instance, execution).await;
            let failed = outcome.kind == OutcomeKind::Failed || outcome.exit_code == Some(127);
            assert!(failed, "it ended with {outcome:?}");
        }
        Err(ExecError::Refused { .. }) => {
            let seen = harness.seen(instance, execution).await;
            assert!(
                !matches!(seen, Some(ProcessObservation::Running { .. })),
                "the execution was refused and runs"
            );
        }
        Err(ExecError::Unclear { why }) => panic!("the outcome of exec is unknown: {why}"),
    }
}

pub(super) async fn running_and_ended_executions_are_observed(harness: Harness) {
    let instance = harness.started().await;
    let running = harness.run(instance, TestCommand::RunUntilKilled).await;
    let ended = harness.run(instance, TestCommand::ExitWith3).await;

    let outcome = harness.outcome(instance, ended).await;

    harness.runs(instance, running).await;
    assert_eq!(harness.seen(instance, ended).await, Some(ProcessObservation::Ended(outcome)));
    let executions = harness.whole(instance).await.executions;
    assert_eq!(executions.len(), 2, "other executions are listed too: {executions:?}");
}

pub(super) async fn executions_run_concurrently(harness: Harness) {
    let instance = harness.started().await;
    let mut running = Vec::new();
    for _ in 0..4 {
        running.push(harness.run(instance, TestCommand::RunUntilKilled).await);
    }

    let short = harness.run(instance, TestCommand::Succeed).await;

    assert_eq!(harness.outcome(instance, short).await.exit_code, Some(0));
    for execution in running {
        harness.runs(instance, execution).await;
    }
}

/// The process that started the execution may be dead.
pub(super) async fn another_process_can_continue_with_an_execution(harness: Harness) {
    let instance = harness.started().await;
    let ended = harness.run(instance, TestCommand::ExitWith3).await;
    let running = harness.run(instance, TestCommand::RunUntilKilled).await;

    let other = harness.another_process();

    assert_eq!(other.outcome(instance, ended).await.exit_code, Some(3));
    other.runs(instance, running).await;
    other.provider.kill(instance, running).await;
    other.outcome(instance, running).await;
}

pub(super) async fn sandboxes_do_not_see_each_others_executions(harness: Harness) {
    let (instance, neighbour) = (harness.started().await, harness.started().await);
    let execution = harness.run(instance, TestCommand::RunUntilKilled).await;

    let seen = harness.seen(neighbour, execution).await;
    let waited = within(
        "the refusal to wait for another sandbox's execution",
        harness.provider.wait(neighbour, execution),
    )
    .await;
    harness.provider.kill(neighbour, execution).await;

    assert_eq!(seen, None);
    assert_eq!(waited, Err(WaitError::NoSuchExecution));
    harness.runs(instance, execution).await;
}

/// Also not by a later request with the same id.
pub(super) async fn a_failed_start_is_never_retried_under_its_id(harness: Harness) {
    let instance = harness.started().await;
    let execution = harness.fixture.fresh_execution();
    let _ = harness.exec(instance, execution, TestCommand::NotFound).await;

    for process in [&harness, &harness.another_process()] {
        let _ = process.exec(instance, execution, TestCommand::RunUntilKilled).await;
    }

    let seen = harness.seen(instance, execution).await;
    assert!(
        !matches!(seen, Some(ProcessObservation::Running { .. })),
        "the execution could not be started and runs"
    );
}
