//! How an execution ends when it is told to, and stays ended whatever comes later.

use std::sync::Mutex;

use pinfold_lifecycle::Seen;

use super::Deed;
use super::permit::Asks;
use super::site::{Site, refused, within};
use crate::Killed;

pub(super) async fn a_kill_ends_a_running_execution(site: Site) {
    let body = site.started().await;
    let execution = site.run(body, Deed::RunUntilKilled).await;
    let provider = site.provider.clone();
    let waiting = tokio::spawn(async move { provider.wait(body, execution).await });
    site.runs(body, execution).await;

    assert_eq!(site.provider.kill(body, execution).await, Killed::Gone);

    let waited = within("the answer to a wait for what was killed", waiting).await;
    let waited = waited.unwrap_or_else(|error| panic!("the wait panicked: {error}"));
    let outcome = waited.unwrap_or_else(|error| panic!("{execution} could not be waited for: {error}"));
    assert_ne!(outcome.exit_code, Some(0), "it was killed and has succeeded");
    assert_eq!(site.seen(body, execution).await, Some(Seen::Ended(outcome)));
}

pub(super) async fn a_kill_leaves_other_executions_alone(site: Site) {
    let body = site.started().await;
    let killed = site.run(body, Deed::RunUntilKilled).await;
    let other = site.run(body, Deed::RunUntilKilled).await;

    assert_eq!(site.provider.kill(body, killed).await, Killed::Gone);

    site.outcome(body, killed).await;
    site.runs(body, other).await;
}

pub(super) async fn a_kill_after_the_end_changes_no_outcome(site: Site) {
    let body = site.started().await;
    let execution = site.run(body, Deed::ExitWith3).await;
    let outcome = site.outcome(body, execution).await;

    assert_eq!(site.provider.kill(body, execution).await, Killed::Gone);
    assert_eq!(site.provider.kill(body, execution).await, Killed::Gone);

    assert_eq!(site.outcome(body, execution).await, outcome);
}

pub(super) async fn an_execution_killed_before_its_start_is_never_started(site: Site) {
    let body = site.started().await;
    let execution = site.ground.fresh_execution();

    assert_eq!(site.provider.kill(body, execution).await, Killed::Gone);

    for process in [&site, &site.another_process()] {
        let answer = process.exec(body, execution, Deed::RunUntilKilled).await;
        refused(&answer, "an execution that was killed before");
    }
    let seen = site.seen(body, execution).await;
    assert!(!matches!(seen, Some(Seen::Running { .. })), "it was refused and runs");
}

/// The answer may be that it is refused or that it was started before; it does not run.
pub(super) async fn a_killed_execution_is_not_started_again(site: Site) {
    let body = site.started().await;
    let execution = site.run(body, Deed::RunUntilKilled).await;
    assert_eq!(site.provider.kill(body, execution).await, Killed::Gone);
    let outcome = site.outcome(body, execution).await;

    let _ = site.exec(body, execution, Deed::RunUntilKilled).await;

    assert_eq!(site.seen(body, execution).await, Some(Seen::Ended(outcome.clone())));
    assert_eq!(site.outcome(body, execution).await, outcome);
}

/// Or it is not confirmed.
pub(super) async fn a_kill_while_the_body_is_being_made_is_kept(site: Site) {
    let body = site.fresh_body();
    let execution = site.ground.fresh_execution();
    let killed = Mutex::new(None);
    let permit = Asks(|| async {
        let answer = site.provider.kill(body, execution).await;
        *killed.lock().expect("no kill panics while it is kept") = Some(answer);
        true
    });

    let started = site.launch(body, &permit).await;

    assert_eq!(started, Ok(()));
    match killed.into_inner().expect("no kill panics while it is kept") {
        None => panic!("the permit was not asked"),
        Some(Killed::Unknown { .. }) => {}
        Some(Killed::Gone) => {
            let answer = site.exec(body, execution, Deed::RunUntilKilled).await;
            refused(&answer, "an execution that was killed before");
        }
    }
}
