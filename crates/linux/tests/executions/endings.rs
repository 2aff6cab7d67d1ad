//! Bodies that sleep, that hang up, and bodies with almost the same name: a look wakes nothing and takes no silence for
//! an end, and a stop ends what it names alone.

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

use pinfold_lifecycle::{Evidence, ExecutionId, Finding, Generation, Probed, Spec, StopOutcome};
use pinfold_provider::{InstanceId, Provider, Start};

use crate::config::now;
use crate::sandbox::{Granted, Sandbox, until};

/// Sleeps until somebody wakes it, and then says so. It would live on.
const ASLEEP: &str = "trap '' TERM; trap 'echo woken' CONT; kill -STOP $$; echo woken";

/// A sandbox in which everything but its keeper sleeps.
async fn asleep() -> (Sandbox, ExecutionId) {
    let sandbox = Sandbox::plain().await;
    let sleeper = sandbox.script(ASLEEP).await;
    let stopped = "cat /proc/[0-9]*/stat | grep -c '^[0-9]* (sh) T '";
    until("it sleeps", || async { sandbox.says(stopped).await == "1\n" }).await;
    (sandbox, sleeper)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_what_sleeps_wakes_nothing() {
    let (sandbox, sleeper) = asleep().await;
    let provider = &sandbox.provider;

    let seen = provider.observe(sandbox.body.sandbox).await;
    let found = provider.discover().await.unwrap().found;
    let probed = [provider.ping(sandbox.body).await, provider.probe(sandbox.body).await];
    let used = provider.usage(sandbox.body).await;
    let stopped = provider.stop(sandbox.body, 0).await;
    let afterwards = provider.observe(sandbox.body.sandbox).await;

    assert!(matches!(&seen, Evidence::Present(bodies) if bodies.len() == 1 && bodies[0].whole), "{seen:?}");
    assert_eq!((found.len(), probed), (1, [Probed::Passed, Probed::Passed]));
    assert!(used.is_ok() && matches!(stopped, StopOutcome::Gone(_)), "{used:?} {stopped:?}");
    assert!(matches!(afterwards, Evidence::Absent(_)), "{afterwards:?}");
    assert_eq!(provider.discover().await.unwrap().found, [], "absence was told without making anything");
    assert_eq!(sandbox.stdout(sleeper), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_sandbox_is_ended_without_being_woken() {
    for grace_ms in [0, 300] {
        let (sandbox, sleeper) = asleep().await;

        let stopped = sandbox.provider.stop(sandbox.body, grace_ms).await;

        let StopOutcome::Gone(receipt) = stopped else { panic!("{stopped:?}") };
        assert!(receipt.checks.iter().all(|check| check.result == Finding::Absent), "{receipt:?}");
        assert_eq!(sandbox.stdout(sleeper), "", "grace: {grace_ms} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_that_hangs_up_on_a_look_is_not_called_broken() {
    let sandbox = Sandbox::plain().await;
    let control = format!("control/v1.{}.{}", sandbox.body.sandbox, sandbox.body.generation.0);
    let control = sandbox.data.path().join(control);
    let (socket, kept) = (control.join("socket"), control.join("kept"));
    fs::rename(&socket, &kept).unwrap();
    let rude = UnixListener::bind(&socket).unwrap();
    // Whoever looks asks twice.
    let rude = std::thread::spawn(move || [(); 2].map(|()| drop(rude.accept())));

    let seen = sandbox.provider.observe(sandbox.body.sandbox).await;

    rude.join().unwrap();
    fs::rename(&kept, &socket).unwrap();
    assert!(matches!(seen, Evidence::Unknown { .. }), "{seen:?}");
    sandbox.still_works().await;
}

/// A process of somebody else that ends with the test.
struct Bystander(Child);

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_spares_a_body_whose_name_begins_alike_and_a_process_that_only_mentions_it() {
    let mut sandbox = Sandbox::plain().await;
    let first = sandbox.body;
    let tenth = InstanceId { generation: Generation(10), ..first };
    let (spec, ends_at) = (Spec::default(), now().after_ms(60_000));
    let start = Start { body: tenth, spec: &spec, ends_at, permit: &Granted, ends_with_caller: false };
    // From here on the guard ends both.
    sandbox.body = tenth;
    sandbox.provider.start(start).await.unwrap();
    let mark = format!("v1.{}.1", first.sandbox);
    let mut bystander = Bystander(Command::new("sleep").arg("60").env("MARK", &mark).spawn().unwrap());
    let mut talker = Command::new("sh");
    talker.args(["-c", "read line", &mark]).stdin(Stdio::piped());
    let mut talker = Bystander(talker.spawn().unwrap());

    let stopped = sandbox.provider.stop(first, 0).await;

    assert_eq!(stopped, StopOutcome::StillPresent { what: "generation 10".into() });
    assert_eq!(sandbox.provider.probe(tenth).await, Probed::Passed);
    let found = sandbox.provider.discover().await.unwrap().found;
    assert_eq!(found.iter().map(|found| found.body).collect::<Vec<_>>(), [tenth]);
    for process in [&mut bystander, &mut talker] {
        assert_eq!(process.0.try_wait().unwrap(), None, "it was ended");
    }
}
