//! What can be learned of bodies and of their host without changing either.

use pinfold_lifecycle::Probed;

use super::site::{Site, fails};
use crate::{Found, InstanceId};

pub(super) async fn everything_that_carries_our_mark_is_discovered(site: Site) {
    let bodies = [site.started().await, site.started().await];

    for body in bodies {
        assert_eq!(site.discovered(body.sandbox).await, [Found { body, whole: true }]);
    }

    for body in bodies {
        site.stopped(body).await;
        assert_eq!(site.discovered(body.sandbox).await, []);
    }
}

pub(super) async fn probe_and_ping_pass_on_a_live_body(site: Site) {
    let body = site.started().await;

    assert_eq!(site.provider.probe(body).await, Probed::Passed);
    assert_eq!(site.provider.ping(body).await, Probed::Passed);
}

pub(super) async fn probe_and_ping_do_not_pass_where_nothing_lives(site: Site) {
    let never_was = site.fresh_body();
    let live = site.started().await;
    let not_yet = site.body(live.sandbox, 2);
    let ended = site.started().await;
    site.stopped(ended).await;

    for body in [never_was, not_yet, ended] {
        no_sign_of_life(&site, body).await;
    }
}

pub(super) async fn a_probe_is_not_an_execution(site: Site) {
    let body = site.started().await;

    assert_eq!(site.provider.probe(body).await, Probed::Passed);

    let executions = site.whole(body).await.executions;
    assert!(executions.is_empty(), "the probe is listed among the executions: {executions:?}");
}

pub(super) async fn usage_answers_for_a_live_body_only(site: Site) {
    let body = site.started().await;

    let usage = site.provider.usage(body).await;
    assert!(usage.is_ok(), "a live body does not say what it uses: {usage:?}");

    site.stopped(body).await;
    fails(&site.provider.usage(body).await, "the usage of what was stopped");
    let never_was = site.fresh_body();
    fails(&site.provider.usage(never_was).await, "the usage of what never was");
}

pub(super) async fn capacity_answers(site: Site) {
    let capacity = site.provider.capacity().await;

    assert!(capacity.is_ok(), "the host does not say what it has: {capacity:?}");
}

async fn no_sign_of_life(site: &Site, body: InstanceId) {
    let probed = site.provider.probe(body).await;
    assert_ne!(probed, Probed::Passed, "a probe passed in {body:?}");
    let pinged = site.provider.ping(body).await;
    assert_ne!(pinged, Probed::Passed, "a ping passed in {body:?}");
}
