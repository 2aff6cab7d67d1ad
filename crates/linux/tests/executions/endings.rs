//! Observation and stop of instances with stopped processes, with a keeper that drops connections, and with similar
//! names: observation wakes nothing and takes no silence for an end, and a stop affects only the named instance.

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

use pinfold_lifecycle::{Evidence, ExecutionId, Finding, Generation, ProbeResult, Spec, StopOutcome};
use pinfold_provider::{InstanceId, Provider, StartRequest};
use pinfold_test_support::linux::{AlwaysWanted, now};
use pinfold_test_support::until_async;

use crate::sandbox::Sandbox;

/// Stops itself; reports if anything continues it, and would live on.
const STOP_ITSELF: &str = "trap '' TERM; trap 'echo woken' CONT; kill -STOP $$; echo woken";

/// A sandbox in which everything but the keeper is stopped by a signal.
async fn sandbox_with_stopped_process() -> (Sandbox, ExecutionId) {
    let sandbox = Sandbox::plain().await;
    let sleeper = sandbox.script(STOP_ITSELF).await;
    let stopped = "cat /proc/[0-9]*/stat | grep -c '^[0-9]* (sh) T '";
    until_async("it sleeps", || async { sandbox.says(stopped).await == "1\n" }).await;
    (sandbox, sleeper)
}

#[tokio::test(flavor = "multi_thread")]
async fn observing_a_stopped_process_does_not_wake_it() {
    let (sandbox, sleeper) = sandbox_with_stopped_process().await;
    let provider = &sandbox.provider;

    let seen = provider.observe(sandbox.instance.sandbox).await;
    let found = provider.discover().await.unwrap().found;
    let probed = [provider.ping(sandbox.instance).await, provider.probe(sandbox.instance).await];
    let used = provider.usage(sandbox.instance).await;
    let stopped = provider.stop(sandbox.instance, 0).await;
    let afterwards = provider.observe(sandbox.instance.sandbox).await;

    assert!(
        matches!(&seen, Evidence::Present(instances) if instances.len() == 1 && instances[0].whole),
        "{seen:?}"
    );
    assert_eq!((found.len(), probed), (1, [ProbeResult::Passed, ProbeResult::Passed]));
    assert!(used.is_ok() && matches!(stopped, StopOutcome::Gone(_)), "{used:?} {stopped:?}");
    assert!(matches!(afterwards, Evidence::Absent(_)), "{afterwards:?}");
    assert_eq!(provider.discover().await.unwrap().found, [], "the observation created nothing");
    assert_eq!(sandbox.stdout(sleeper), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_processes_are_killed_without_being_woken() {
    for grace_ms in [0, 300] {
        let (sandbox, sleeper) = sandbox_with_stopped_process().await;

        let stopped = sandbox.provider.stop(sandbox.instance, grace_ms).await;

        let StopOutcome::Gone(receipt) = stopped else { panic!("{stopped:?}") };
        assert!(receipt.checks.iter().all(|check| check.result == Finding::Absent), "{receipt:?}");
        assert_eq!(sandbox.stdout(sleeper), "", "grace: {grace_ms} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_that_drops_the_connection_is_not_reported_broken() {
    let sandbox = Sandbox::plain().await;
    let control = format!("control/v1.{}.{}", sandbox.instance.sandbox, sandbox.instance.generation.0);
    let control = sandbox.data.path().join(control);
    let (socket, kept) = (control.join("socket"), control.join("kept"));
    fs::rename(&socket, &kept).unwrap();
    let dropping = UnixListener::bind(&socket).unwrap();
    // An observation asks twice.
    let dropping = std::thread::spawn(move || [(); 2].map(|()| drop(dropping.accept())));

    let seen = sandbox.provider.observe(sandbox.instance.sandbox).await;

    dropping.join().unwrap();
    fs::rename(&kept, &socket).unwrap();
    assert!(matches!(seen, Evidence::Unknown { .. }), "{seen:?}");
    sandbox.still_works().await;
}

/// An unrelated process, killed at the end of the test.
struct Bystander(Child);

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_spares_instances_with_a_longer_name_and_processes_that_mention_the_name() {
    let mut sandbox = Sandbox::plain().await;
    let first = sandbox.instance;
    let tenth = InstanceId { generation: Generation(10), ..first };
    let (spec, ends_at) = (Spec::default(), now().after_ms(60_000));
    let start = StartRequest {
        instance: tenth,
        spec: &spec,
        ends_at,
        permit: &AlwaysWanted,
        ends_with_caller: false,
    };
    // From here on the drop guard stops both.
    sandbox.instance = tenth;
    sandbox.provider.start(start).await.unwrap();
    let name = format!("v1.{}.1", first.sandbox);
    let mut bystander = Bystander(Command::new("sleep").arg("60").env("NAME", &name).spawn().unwrap());
    let mut talker = Command::new("sh");
    talker.args(["-c", "read line", &name]).stdin(Stdio::piped());
    let mut talker = Bystander(talker.spawn().unwrap());

    let stopped = sandbox.provider.stop(first, 0).await;

    assert_eq!(stopped, StopOutcome::StillPresent { what: "generation 10".into() });
    assert_eq!(sandbox.provider.probe(tenth).await, ProbeResult::Passed);
    let found = sandbox.provider.discover().await.unwrap().found;
    assert_eq!(found.iter().map(|found| found.instance).collect::<Vec<_>>(), [tenth]);
    for process in [&mut bystander, &mut talker] {
        assert_eq!(process.0.try_wait().unwrap(), None, "it was killed");
    }
}
