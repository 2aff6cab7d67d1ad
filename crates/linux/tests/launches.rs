//! A launch that was given up and goes on for a while all the same, and the stop that comes meanwhile.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "ground/config.rs"]
mod config;

use std::future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use async_trait::async_trait;
use config::{config, now};
use pinfold_lifecycle::{Generation, SandboxId, Spec, StopOutcome, Timestamp};
use pinfold_linux::{LinuxConfig, LinuxProvider};
use pinfold_provider::{Discovered, InstanceId, Provider, Start, StartPermit};
use tokio::time::timeout;

const BODY: InstanceId = InstanceId { sandbox: SandboxId(1), generation: Generation(1) };
const PATIENCE: Duration = Duration::from_secs(20);
/// More than enough to find that nothing is there.
const LOOK: Duration = Duration::from_millis(500);

/// As a store that takes its time.
struct Unanswered;

#[async_trait]
impl StartPermit for Unanswered {
    async fn still_wanted(&self) -> bool {
        future::pending().await
    }
}

/// A clock that keeps the first who asks for the time, which is a launch before it leaves its mark.
fn clock(reached: Sender<()>, go_on: Receiver<()>) -> impl Fn() -> Timestamp + Send + Sync {
    let (is_first, go_on) = (AtomicBool::new(true), std::sync::Mutex::new(go_on));
    move || {
        if is_first.swap(false, Ordering::Relaxed) {
            reached.send(()).unwrap();
            go_on.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        }
        now()
    }
}

async fn launch(provider: Arc<LinuxProvider>) {
    let spec = Spec::default();
    let ends_at = now().after_ms(60_000);
    let start = Start { body: BODY, spec: &spec, ends_at, permit: &Unanswered, ends_with_caller: true };
    provider.start(start).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stop_proves_nothing_before_a_launch_that_was_given_up_has_come_to_its_end() {
    let data = tempfile::tempdir().unwrap();
    let ((reached, is_reached), (release, go_on)) = (channel(), channel());
    let clock = Arc::new(clock(reached, go_on));
    let provider = Arc::new(LinuxProvider::open(LinuxConfig { clock, ..config(data.path()) }).unwrap());
    let launching = tokio::spawn(launch(provider.clone()));
    let reached = tokio::task::spawn_blocking(move || is_reached.recv_timeout(PATIENCE));
    reached.await.unwrap().unwrap();

    launching.abort();
    let stopper = provider.clone();
    let mut stopping = tokio::spawn(async move { stopper.stop(BODY, 0).await });
    let early = timeout(LOOK, &mut stopping).await;
    release.send(()).unwrap();
    assert!(launching.await.unwrap_err().is_cancelled());
    let was_early = early.is_ok();
    let stopped = if let Ok(early) = early { early } else { stopping.await };

    let left = provider.discover().await.unwrap();
    for found in &left.found {
        provider.stop(found.body, 0).await;
    }
    assert!(matches!(stopped.unwrap(), StopOutcome::Gone(_)));
    assert_eq!(left, Discovered::default(), "it came after the proof that it was gone");
    assert!(!was_early);
}
