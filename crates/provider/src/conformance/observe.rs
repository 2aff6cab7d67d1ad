//! Observations of instances and their host, which change neither.

use pinfold_lifecycle::ProbeResult;

use super::harness::{Harness, fails};
use crate::{Found, InstanceId};

pub(super) async fn every_instance_with_our_name_is_discovered(harness: Harness) {
    let instances = [harness.started().await, harness.started().await];

    for instance in instances {
        assert_eq!(harness.discovered(instance.sandbox).await, [Found { instance, whole: true }]);
    }

    for instance in instances {
        harness.stopped(instance).await;
        assert_eq!(harness.discovered(instance.sandbox).await, []);
    }
}

pub(super) async fn probe_and_ping_pass_on_a_live_instance(harness: Harness) {
    let instance = harness.started().await;

    assert_eq!(harness.provider.probe(instance).await, ProbeResult::Passed);
    assert_eq!(harness.provider.ping(instance).await, ProbeResult::Passed);
}

pub(super) async fn probe_and_ping_do_not_pass_without_a_live_instance(harness: Harness) {
    let never_was = harness.fresh_instance();
    let live = harness.started().await;
    let not_yet = harness.instance(live.sandbox, 2);
    let ended = harness.started().await;
    harness.stopped(ended).await;

    for instance in [never_was, not_yet, ended] {
        no_sign_of_life(&harness, instance).await;
    }
}

pub(super) async fn a_probe_is_not_an_execution(harness: Harness) {
    let instance = harness.started().await;

    assert_eq!(harness.provider.probe(instance).await, ProbeResult::Passed);

    let executions = harness.whole(instance).await.executions;
    assert!(executions.is_empty(), "the probe is listed among the executions: {executions:?}");
}

pub(super) async fn usage_answers_for_a_live_instance_only(harness: Harness) {
    let instance = harness.started().await;

    let usage = harness.provider.usage(instance).await;
    assert!(usage.is_ok(), "usage of a live instance failed: {usage:?}");

    harness.stopped(instance).await;
    fails(&harness.provider.usage(instance).await, "usage of a stopped instance");
    let never_was = harness.fresh_instance();
    fails(&harness.provider.usage(never_was).await, "usage of an instance never started");
}

pub(super) async fn capacity_answers(harness: Harness) {
    let capacity = harness.provider.capacity().await;

    assert!(capacity.is_ok(), "capacity failed: {capacity:?}");
}

async fn no_sign_of_life(harness: &Harness, instance: InstanceId) {
    let probed = harness.provider.probe(instance).await;
    assert_ne!(probed, ProbeResult::Passed, "a probe passed in {instance:?}");
    let pinged = harness.provider.ping(instance).await;
    assert_ne!(pinged, ProbeResult::Passed, "a ping passed in {instance:?}");
}
