//! A cancelled launch that runs on for a while, and a stop meanwhile.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "fixture/config.rs"]
mod config;

use std::future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use async_trait::async_trait;
use config::config;
use pinfold_lifecycle::{Generation, SandboxId, Spec, StopOutcome, Timestamp};
use pinfold_linux::{LinuxConfig, LinuxProvider};
use pinfold_provider::{Discovered, InstanceId, Provider, StartPermit, StartRequest};
use pinfold_test_support::linux::now;
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
