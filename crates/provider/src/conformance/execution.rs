//! Commands in a body: started once, waited for as often as one likes, seen while they run and after.

use pinfold_lifecycle::{OutcomeKind, Seen};

use super::Deed;
use super::site::{Site, refused, within};
use crate::{ExecError, WaitError};

pub(super) async fn an_execution_ends_with_its_exit_code(site: Site) {
    let body = site.started().await;

    let succeeds = site.run(body, Deed::Succeed).await;
    let fails = site.run(body, Deed::ExitWith3).await;

    for (execution, code) in [(fails, 3), (succeeds, 0)] {
        let outcome = site.outcome(body, execution).await;
        assert_eq!((outcome.kind, outcome.exit_code), (OutcomeKind::Exited, Some(code)));
    }
}

pub(super) async fn wait_can_be_asked_again_after_the_end(site: Site) {
    let body = site.started().await;
    let execution = site.run(body, Deed::ExitWith3).await;

    let first = site.outcome(body, execution).await;
    let again = site.outcome(body, execution).await;

    assert_eq!(first.exit_code, Some(3));
    assert_eq!(again, first);
}

pub(super) async fn an_execution_that_was_not_started_is_not_waited_for(site: Site) {
    let body = site.started().await;
    let unknown = site.ground.fresh_execution();

    let waited = within("a wait for nothing to be refused", site.provider.wait(body, unknown)).await;

    assert_eq!(waited, Err(WaitError::NoSuchExecution));
}

/// The second time the command is another one, which shows in the outcome if it is run.
pub(super) async fn the_same_execution_is_started_once(site: Site) {
    let body = site.started().await;
    let running = site.run(body, Deed::RunUntilKilled).await;
    let ended = site.run(body, Deed::ExitWith3).await;
    site.outcome(body, ended).await;

    let other = site.another_process();
    for execution in [running, ended] {
        let again = other.exec(body, execution, Deed::Succeed).await;
        assert_eq!(again, Ok(()), "starting again what was started is not an error");
    }

    site.runs(body, running).await;
    assert_eq!(site.outcome(body, ended).await.exit_code, Some(3));
    let executions = site.whole(body).await.executions;
    assert_eq!(executions.len(), 2, "there are more processes than executions: {executions:?}");
}

pub(super) async fn an_execution_for_another_generation_is_refused(site: Site) {
    let sandbox = site.ground.fresh_sandbox();
    let body = site.body(sandbox, 2);
    site.start(body).await;

    for generation in [1, 3] {
        let execution = site.ground.fresh_execution();
        let answer = site.exec(site.body(sandbox, generation), execution, Deed::Succeed).await;
        refused(&answer, "an execution for another generation");
    }

    let executions = site.whole(body).await.executions;
    assert!(executions.is_empty(), "it was refused and runs all the same: {executions:?}");
}

pub(super) async fn an_execution_in_no_body_is_refused(site: Site) {
    let never_was = site.fresh_body();
    let ended = site.started().await;
    site.stopped(ended).await;

    for body in [never_was, ended] {
        let answer = site.exec(body, site.ground.fresh_execution(), Deed::Succeed).await;
        refused(&answer, "an execution in no body");
        site.absent(body.sandbox).await;
    }
}

/// Refused, failed, or ended with the exit code that shells have for it.
pub(super) async fn a_command_that_cannot_be_found_fails(site: Site) {
    let body = site.started().await;
    let execution = site.ground.fresh_execution();

    match site.exec(body, execution, Deed::NotFound).await {
        Ok(()) => {
            let outcome = site.outcome(body, execution).await;
            let failed = outcome.kind == OutcomeKind::Failed || outcome.exit_code == Some(127);
            assert!(failed, "it ended with {outcome:?}");
        }
        Err(ExecError::Refused { .. }) => {
            let seen = site.seen(body, execution).await;
            assert!(!matches!(seen, Some(Seen::Running { .. })), "it was refused and runs");
        }
        Err(ExecError::Unclear { why }) => panic!("nobody can say whether it runs: {why}"),
    }
}

pub(super) async fn running_and_ended_executions_are_observed(site: Site) {
    let body = site.started().await;
    let running = site.run(body, Deed::RunUntilKilled).await;
    let ended = site.run(body, Deed::ExitWith3).await;

    let outcome = site.outcome(body, ended).await;

    site.runs(body, running).await;
    assert_eq!(site.seen(body, ended).await, Some(Seen::Ended(outcome)));
    let executions = site.whole(body).await.executions;
    assert_eq!(executions.len(), 2, "others are listed too: {executions:?}");
}

pub(super) async fn executions_run_side_by_side(site: Site) {
    let body = site.started().await;
    let mut running = Vec::new();
    for _ in 0..4 {
        running.push(site.run(body, Deed::RunUntilKilled).await);
    }

    let short = site.run(body, Deed::Succeed).await;

    assert_eq!(site.outcome(body, short).await.exit_code, Some(0));
    for execution in running {
        site.runs(body, execution).await;
    }
}

/// The one that started it may be dead.
pub(super) async fn another_process_can_go_on_with_an_execution(site: Site) {
    let body = site.started().await;
    let ended = site.run(body, Deed::ExitWith3).await;
    let running = site.run(body, Deed::RunUntilKilled).await;

    let other = site.another_process();

    assert_eq!(other.outcome(body, ended).await.exit_code, Some(3));
    other.runs(body, running).await;
    other.provider.kill(body, running).await;
    other.outcome(body, running).await;
}

pub(super) async fn neighbours_do_not_see_each_others_executions(site: Site) {
    let (body, neighbour) = (site.started().await, site.started().await);
    let execution = site.run(body, Deed::RunUntilKilled).await;

    let seen = site.seen(neighbour, execution).await;
    let waited =
        within("a wait for a neighbour's execution to be refused", site.provider.wait(neighbour, execution))
            .await;
    site.provider.kill(neighbour, execution).await;

    assert_eq!(seen, None);
    assert_eq!(waited, Err(WaitError::NoSuchExecution));
    site.runs(body, execution).await;
}

/// Whatever is asked under the same id later.
pub(super) async fn what_could_not_be_started_is_never_started(site: Site) {
    let body = site.started().await;
    let execution = site.ground.fresh_execution();
    let _ = site.exec(body, execution, Deed::NotFound).await;

    for process in [&site, &site.another_process()] {
        let _ = process.exec(body, execution, Deed::RunUntilKilled).await;
    }

    let seen = site.seen(body, execution).await;
    assert!(!matches!(seen, Some(Seen::Running { .. })), "it could not be started, and runs");
}
