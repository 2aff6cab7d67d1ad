//! The time at which an instance ends itself without a request.

use pinfold_lifecycle::ProbeResult;

use super::TestCommand;
use super::harness::{Harness, fails, runs_something};
use super::permit::Granted;
use crate::InstanceId;

const SHORT_MS: u64 = 1_000;
/// Retries of a case, each with twice the time, on a slow machine.
const TRIES: u32 = 5;

pub(super) async fn an_instance_ends_itself_when_its_time_is_up(harness: Harness) {
    let (instance, time_ms) = short_lived(&harness).await;

    harness.fixture.pass_ms(time_ms).await;

    harness.lifeless(instance.sandbox).await;
    assert_ne!(
        harness.provider.ping(instance).await,
        ProbeResult::Passed,
        "the instance answers after its end"
    );
    harness.stopped(instance).await;
    harness.absent(instance.sandbox).await;
}

/// A provider may refuse to start the instance again without a stop.
pub(super) async fn a_repeated_start_brings_no_execution_back(harness: Harness) {
    let (instance, time_ms) = short_lived(&harness).await;
    harness.fixture.pass_ms(time_ms).await;
    harness.lifeless(instance.sandbox).await;

    let _ = harness.launch(instance, &Granted).await;

    let instances = harness.instances(instance.sandbox).await;
    let nothing_runs = instances.iter().all(|instance| !runs_something(instance));
    assert!(nothing_runs, "an execution came back: {instances:?}");
}

pub(super) async fn keep_alive_can_shorten_the_life(harness: Harness) {
    let instance = harness.started().await;
    harness.run(instance, TestCommand::RunUntilKilled).await;

    let kept = harness.provider.keep_alive(instance, harness.fixture.in_ms(0)).await;

    assert_eq!(kept, Ok(()));
    harness.lifeless(instance.sandbox).await;
}

pub(super) async fn keep_alive_can_extend_the_life(harness: Harness) {
    for attempt in 0..TRIES {
        let time_ms = SHORT_MS << attempt;
        let instance = harness.started().await;
        let execution = harness.run(instance, TestCommand::RunUntilKilled).await;
        let nearer = harness.provider.keep_alive(instance, harness.fixture.in_ms(time_ms)).await;
        assert_eq!(nearer, Ok(()));
        // An error: the instance ended before the call.
        if harness.provider.keep_alive(instance, harness.later()).await.is_ok() {
            harness.fixture.pass_ms(time_ms).await;
            harness.runs(instance, execution).await;
            return;
        }
    }
    panic!("no instance was ever kept alive in time");
}

pub(super) async fn only_a_live_instance_is_kept_alive(harness: Harness) {
    let instance = harness.started().await;
    assert_eq!(harness.provider.keep_alive(instance, harness.later()).await, Ok(()));

    harness.stopped(instance).await;

    let kept = harness.provider.keep_alive(instance, harness.later()).await;
    fails(&kept, "keep_alive of a stopped instance");
    let kept = harness.provider.keep_alive(harness.fresh_instance(), harness.later()).await;
    fails(&kept, "keep_alive of an instance never started");
    harness.absent(instance.sandbox).await;
}

/// An instance with a near end, in which a command runs.
async fn short_lived(harness: &Harness) -> (InstanceId, u64) {
    for attempt in 0..TRIES {
        let time_ms = SHORT_MS << attempt;
        let instance = harness.fresh_instance();
        let ends_at = harness.fixture.in_ms(time_ms);
        let started = harness.launch_until(instance, &Granted, ends_at).await;
        let execution = harness.fixture.fresh_execution();
        // An error of either: the instance ended before the call.
        if started.is_ok() && harness.exec(instance, execution, TestCommand::RunUntilKilled).await.is_ok() {
            return (instance, time_ms);
        }
    }
    panic!("no instance was ever started in time");
}
