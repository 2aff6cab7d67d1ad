//! How a body ends when it is told to: with proof, as often as one likes, and nothing but what was meant.

use pinfold_lifecycle::StopOutcome;

use super::Deed;
use super::permit::Granted;
use super::site::{Site, within};
use crate::StartError;

pub(super) async fn a_stopped_body_is_proven_gone(site: Site) {
    let body = site.started().await;

    let receipt = site.stopped(body).await;

    assert_eq!(receipt.generation, body.generation);
    assert!(receipt.proves_absence(), "the receipt does not prove it: {receipt:?}");
    assert_eq!(receipt.attested, None, "a look needs nobody's word");
    site.absent(body.sandbox).await;
}

pub(super) async fn stopping_twice_answers_gone_twice(site: Site) {
    let body = site.started().await;

    site.stopped(body).await;
    let receipt = site.stopped(body).await;

    assert!(receipt.proves_absence(), "the receipt does not prove it: {receipt:?}");
    site.absent(body.sandbox).await;
}

pub(super) async fn stopping_what_never_was_answers_gone(site: Site) {
    let body = site.fresh_body();

    let receipt = site.stopped(body).await;

    assert!(receipt.proves_absence(), "the receipt does not prove it: {receipt:?}");
    site.absent(body.sandbox).await;
}

/// And it does not say that nothing is left: a lease is freed by that.
pub(super) async fn a_stop_leaves_later_generations_alone(site: Site) {
    let sandbox = site.ground.fresh_sandbox();
    let (earlier, later) = (site.body(sandbox, 1), site.body(sandbox, 2));
    site.start(later).await;
    let execution = site.run(later, Deed::RunUntilKilled).await;

    let outcome = site.stop(earlier).await;

    site.runs(later, execution).await;
    assert!(!matches!(outcome, StopOutcome::Gone(_)), "a later body is there, and the answer is {outcome:?}");
}

/// A provider may refuse to make the second body beside the first.
pub(super) async fn a_stop_ends_earlier_generations_too(site: Site) {
    let earlier = site.started().await;
    let later = site.body(earlier.sandbox, 2);
    let started = site.launch(later, &Granted).await;
    assert!(
        matches!(started, Ok(()) | Err(StartError::Failed { .. })),
        "a launch beside an earlier body came to {started:?}"
    );

    let receipt = site.stopped(later).await;

    assert!(receipt.proves_absence(), "the receipt does not prove it: {receipt:?}");
    site.absent(earlier.sandbox).await;
}

pub(super) async fn a_stop_ends_running_executions(site: Site) {
    let body = site.started().await;
    let execution = site.run(body, Deed::RunUntilKilled).await;
    let provider = site.another_process().provider;
    let waiting = tokio::spawn(async move { provider.wait(body, execution).await });
    site.runs(body, execution).await;

    site.stopped(body).await;

    let waited = within("the answer to a wait in a stopped body", waiting).await;
    let waited = waited.unwrap_or_else(|error| panic!("the wait panicked: {error}"));
    let succeeded = waited.as_ref().is_ok_and(|outcome| outcome.exit_code == Some(0));
    assert!(!succeeded, "an execution was ended and has succeeded: {waited:?}");
    site.absent(body.sandbox).await;
}

/// By the lease alone, from any process on the host.
pub(super) async fn a_stop_needs_no_memory_of_the_start(site: Site) {
    let body = site.started().await;
    site.run(body, Deed::RunUntilKilled).await;

    let other = site.another_process();
    other.whole(body).await;
    other.stopped(body).await;

    other.absent(body.sandbox).await;
    site.absent(body.sandbox).await;
}

pub(super) async fn stopping_one_sandbox_leaves_its_neighbour(site: Site) {
    let (ended, neighbour) = (site.started().await, site.started().await);
    let execution = site.run(neighbour, Deed::RunUntilKilled).await;

    site.stopped(ended).await;

    site.absent(ended.sandbox).await;
    site.runs(neighbour, execution).await;
}
