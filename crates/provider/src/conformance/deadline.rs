//! The moment at which a body ends itself, even if nobody asks it to.

use pinfold_lifecycle::Probed;

use super::Deed;
use super::permit::Granted;
use super::site::{Site, fails, runs_something};
use crate::InstanceId;

const SHORT_MS: u64 = 1_000;
/// How often a promise tries again, with twice the time, where the machine was too slow to see it kept.
const TRIES: u32 = 5;

pub(super) async fn a_body_ends_itself_when_its_time_is_up(site: Site) {
    let (body, time_ms) = short_lived(&site).await;

    site.ground.pass_ms(time_ms).await;

    site.lifeless(body.sandbox).await;
    assert_ne!(site.provider.ping(body).await, Probed::Passed, "it answers after its end");
    site.stopped(body).await;
    site.absent(body.sandbox).await;
}

/// Whether it can be made again without a stop is the provider's choice.
pub(super) async fn nothing_comes_back_with_a_body_that_is_made_again(site: Site) {
    let (body, time_ms) = short_lived(&site).await;
    site.ground.pass_ms(time_ms).await;
    site.lifeless(body.sandbox).await;

    let _ = site.launch(body, &Granted).await;

    let bodies = site.bodies(body.sandbox).await;
    let nothing_runs = bodies.iter().all(|body| !runs_something(body));
    assert!(nothing_runs, "an execution came back to life: {bodies:?}");
}

pub(super) async fn keep_alive_brings_the_end_nearer(site: Site) {
    let body = site.started().await;
    site.run(body, Deed::RunUntilKilled).await;

    let kept = site.provider.keep_alive(body, site.ground.in_ms(0)).await;

    assert_eq!(kept, Ok(()));
    site.lifeless(body.sandbox).await;
}

pub(super) async fn keep_alive_puts_the_end_off(site: Site) {
    for attempt in 0..TRIES {
        let time_ms = SHORT_MS << attempt;
        let body = site.started().await;
        let execution = site.run(body, Deed::RunUntilKilled).await;
        let nearer = site.provider.keep_alive(body, site.ground.in_ms(time_ms)).await;
        assert_eq!(nearer, Ok(()));
        // An error: the end came first, and nothing was put off.
        if site.provider.keep_alive(body, site.later()).await.is_ok() {
            site.ground.pass_ms(time_ms).await;
            site.runs(body, execution).await;
            return;
        }
    }
    panic!("no body was ever kept alive in time");
}

pub(super) async fn only_a_live_body_is_kept_alive(site: Site) {
    let body = site.started().await;
    assert_eq!(site.provider.keep_alive(body, site.later()).await, Ok(()));

    site.stopped(body).await;

    let kept = site.provider.keep_alive(body, site.later()).await;
    fails(&kept, "keeping alive what was stopped");
    let kept = site.provider.keep_alive(site.fresh_body(), site.later()).await;
    fails(&kept, "keeping alive what never was");
    site.absent(body.sandbox).await;
}

/// A body that was started with an end close by, in which something runs.
async fn short_lived(site: &Site) -> (InstanceId, u64) {
    for attempt in 0..TRIES {
        let time_ms = SHORT_MS << attempt;
        let body = site.fresh_body();
        let ends_at = site.ground.in_ms(time_ms);
        let started = site.launch_until(body, &Granted, ends_at).await;
        let execution = site.ground.fresh_execution();
        // An error of either: the end came first.
        if started.is_ok() && site.exec(body, execution, Deed::RunUntilKilled).await.is_ok() {
            return (body, time_ms);
        }
    }
    panic!("no body was ever started in time");
}
