//! A stop that meets what another task or process left: a cancelled launch that runs on for a while, and an instance
//! that was made with another store.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "fixture/config.rs"]
mod config;

use std::fs;
use std::future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use async_trait::async_trait;
use config::config;
use pinfold_lifecycle::{Generation, SandboxId, Spec, StopOutcome, Timestamp};
use pinfold_linux::{LinuxConfig, LinuxProvider};
use pinfold_provider::{Discovered, InstanceId, Provider, StartPermit, StartRequest};
use pinfold_test_support::linux::{AlwaysWanted, now};
use tokio::time::timeout;

const INSTANCE: InstanceId = InstanceId { sandbox: SandboxId(1), generation: Generation(1) };
const TIMEOUT: Duration = Duration::from_secs(20);
/// Long enough for a stop that does not wait to finish.
const STOP_TIME: Duration = Duration::from_millis(500);

/// A permit that never answers.
struct NeverAnswered;

#[async_trait]
impl StartPermit for NeverAnswered {
    async fn still_wanted(&self) -> bool {
        future::pending().await
    }
}

/// A clock that blocks its first caller, a launch that has not created its control directory yet.
fn clock(reached: Sender<()>, go_on: Receiver<()>) -> impl Fn() -> Timestamp + Send + Sync {
    let (is_first, go_on) = (AtomicBool::new(true), std::sync::Mutex::new(go_on));
    move || {
        if is_first.swap(false, Ordering::Relaxed) {
            reached.send(()).unwrap();
            go_on.lock().unwrap().recv_timeout(TIMEOUT).unwrap();
        }
        now()
    }
}

async fn launch(provider: Arc<LinuxProvider>) {
    let spec = Spec::default();
    let ends_at = now().after_ms(60_000);
    let start = StartRequest {
        instance: INSTANCE,
        spec: &spec,
        ends_at,
        permit: &NeverAnswered,
        ends_with_caller: true,
    };
    provider.start(start).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stop_waits_for_a_cancelled_launch_before_it_proves_absence() {
    let data = tempfile::tempdir().unwrap();
    let ((reached, is_reached), (release, go_on)) = (channel(), channel());
    let clock = Arc::new(clock(reached, go_on));
    let provider = Arc::new(LinuxProvider::open(LinuxConfig { clock, ..config(data.path()) }).unwrap());
    let launching = tokio::spawn(launch(provider.clone()));
    let reached = tokio::task::spawn_blocking(move || is_reached.recv_timeout(TIMEOUT));
    reached.await.unwrap().unwrap();

    launching.abort();
    let stopper = provider.clone();
    let mut stopping = tokio::spawn(async move { stopper.stop(INSTANCE, 0).await });
    let early = timeout(STOP_TIME, &mut stopping).await;
    release.send(()).unwrap();
    assert!(launching.await.unwrap_err().is_cancelled());
    let was_early = early.is_ok();
    let stopped = if let Ok(early) = early { early } else { stopping.await };

    let left = provider.discover().await.unwrap();
    for found in &left.found {
        provider.stop(found.instance, 0).await;
    }
    assert!(matches!(stopped.unwrap(), StopOutcome::Gone(_)));
    assert_eq!(left, Discovered::default(), "an instance appeared after its absence was proven");
    assert!(!was_early);
}

#[tokio::test]
async fn stop_of_an_instance_made_with_another_store_removes_its_cgroups() {
    let data = tempfile::tempdir().unwrap();
    let first = LinuxProvider::open(config(data.path())).unwrap();
    let spec = Spec::default();
    let start = StartRequest {
        instance: INSTANCE,
        spec: &spec,
        ends_at: now().after_ms(60_000),
        permit: &AlwaysWanted,
        ends_with_caller: false,
    };
    first.start(start).await.unwrap();
    let made = recorded_cgroups(data.path());
    drop(first);

    let new_store = LinuxConfig { store_id: 2, ..config(data.path()) };
    let second = LinuxProvider::open(new_store).unwrap();
    let stopped = second.stop(INSTANCE, 0).await;

    let left: Vec<_> = made.into_iter().filter(|it| it.exists()).collect();
    for directory in &left {
        for leaf in ["keeper", "work"] {
            let _ = fs::remove_dir(directory.join(leaf));
        }
        fs::remove_dir(directory).unwrap();
        let _ = fs::remove_dir(directory.parent().unwrap());
    }
    assert!(matches!(stopped, StopOutcome::Gone(_)), "{stopped:?}");
    assert_eq!(left, Vec::<PathBuf>::new(), "cgroups are left although the receipt says absent");
}

/// The cgroup directories that the instance recorded before it made them.
fn recorded_cgroups(data: &std::path::Path) -> Vec<PathBuf> {
    let control = fs::read_dir(data.join("control")).unwrap().next().unwrap().unwrap().path();
    let record = fs::read_to_string(control.join("cgroups")).unwrap();
    record.lines().filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
}
