//! How a body comes into being: mark, permit, body, in this order, and any number of times.

use std::future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pinfold_lifecycle::StopOutcome;
use tokio::sync::Notify;

use super::Deed;
use super::permit::{Asks, Granted};
use super::site::{Site, fails};
use crate::{Found, InstanceId, StartError, WaitError};

pub(super) async fn a_started_body_is_whole_alone_and_of_its_generation(site: Site) {
    let body = site.body(site.ground.fresh_sandbox(), 7);

    site.start(body).await;

    let seen = site.whole(body).await;
    assert!(seen.executions.is_empty(), "a new body has executions: {:?}", seen.executions);
}

pub(super) async fn starting_again_what_runs_makes_no_second_body(site: Site) {
    let body = site.started().await;
    let execution = site.run(body, Deed::RunUntilKilled).await;

    site.start(body).await;
    site.another_process().start(body).await;

    site.runs(body, execution).await;
    let found = site.discovered(body.sandbox).await;
    assert_eq!(found, [Found { body, whole: true }]);
}

/// At least one of them says that it succeeded.
pub(super) async fn two_launches_at_once_make_one_body(site: Site) {
    let body = site.fresh_body();
    let other = site.another_process();

    let (one, two) = tokio::join!(site.launch(body, &Granted), other.launch(body, &Granted));

    assert!(one.is_ok() || two.is_ok(), "neither launch succeeded: {one:?}, {two:?}");
    site.whole(body).await;
}

pub(super) async fn a_launch_that_is_no_longer_wanted_leaves_nothing_behind(site: Site) {
    let body = site.fresh_body();
    let asked = AtomicUsize::new(0);
    let permit = Asks(|| async {
        asked.fetch_add(1, Ordering::Relaxed);
        false
    });

    let started = site.launch(body, &permit).await;

    assert_eq!(started, Err(StartError::NoLongerWanted));
    assert!(asked.into_inner() > 0, "the permit was not asked");
    site.absent(body.sandbox).await;
}

pub(super) async fn the_permit_is_asked_when_the_mark_is_there(site: Site) {
    let body = site.fresh_body();
    let looks = Mutex::new(Vec::new());
    let permit = Asks(|| async {
        let other = site.another_process();
        let look = (other.bodies(body.sandbox).await, other.discovered(body.sandbox).await);
        looks.lock().expect("no look panics while it is kept").push(look);
        true
    });

    let started = site.launch(body, &permit).await;

    assert_eq!(started, Ok(()));
    let looks = looks.into_inner().expect("no look panics while it is kept");
    assert!(!looks.is_empty(), "the permit was not asked");
    for (seen, found) in looks {
        assert!(!seen.is_empty(), "nothing was there when the permit was asked");
        let whole = seen.iter().any(|seen| seen.whole);
        assert!(!whole, "the body was whole before the permit was asked: {seen:?}");
        assert_eq!(found, [Found { body, whole: false }], "discovered when the permit was asked");
    }
}

/// However late the launch wakes up: its mark is gone, so it makes nothing.
pub(super) async fn a_stop_between_mark_and_body_leaves_no_body(site: Site) {
    let body = site.fresh_body();
    let outcome = Mutex::new(None);
    let permit = Asks(|| async {
        let stopped = site.another_process().stop(body).await;
        *outcome.lock().expect("no stop panics while it is kept") = Some(stopped);
        true
    });

    let started = site.launch(body, &permit).await;

    fails(&started, "a launch that was stopped half-way");
    let outcome = outcome.into_inner().expect("no stop panics while it is kept");
    assert!(matches!(outcome, Some(StopOutcome::Gone(_))), "the stop came to {outcome:?}");
    site.absent(body.sandbox).await;
}

pub(super) async fn a_half_made_body_is_found_and_stopped(site: Site) {
    let body = site.fresh_body();

    launch_half(&site, body).await;

    let bodies = site.bodies(body.sandbox).await;
    assert!(!bodies.is_empty(), "the half that was made is not seen");
    assert!(bodies.iter().all(|seen| !seen.whole), "half a body is called whole: {bodies:?}");
    assert_eq!(site.discovered(body.sandbox).await, [Found { body, whole: false }]);
    site.stopped(body).await;
    site.absent(body.sandbox).await;
}

pub(super) async fn a_launch_dropped_half_way_can_be_made_again(site: Site) {
    let body = site.fresh_body();
    launch_half(&site, body).await;

    site.start(body).await;

    site.whole(body).await;
}

pub(super) async fn a_new_generation_knows_nothing_of_the_old_one(site: Site) {
    let old = site.started().await;
    let execution = site.run(old, Deed::Succeed).await;
    site.stopped(old).await;

    let new = site.body(old.sandbox, 2);
    site.start(new).await;

    let seen = site.whole(new).await;
    assert!(seen.executions.is_empty(), "it shows executions of the old one: {seen:?}");
    let waited = site.provider.wait(new, execution).await;
    assert_eq!(waited, Err(WaitError::NoSuchExecution));
    fails(&site.provider.usage(old).await, "asking the old one for its usage");
}

/// Begins a launch and drops it while it waits for its permit, as a crash would.
async fn launch_half(site: &Site, body: InstanceId) {
    let asked = Notify::new();
    let permit = Asks(|| async {
        asked.notify_one();
        future::pending().await
    });
    tokio::select! {
        started = site.launch(body, &permit) => panic!("the launch did not wait for its permit: {started:?}"),
        () = asked.notified() => {}
    }
}
