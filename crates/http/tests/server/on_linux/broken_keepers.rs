//! A sandbox whose process 1 is killed or stopped does not stay `ready`.

use std::time::{Duration, Instant};

use rustix::process::{Signal, pidfd_send_signal};
use serde_json::json;

use crate::fixture::{Fixture, keeper_of, with_server};

const AT_MOST: Duration = Duration::from_secs(5);

fn signal(fixture: &Fixture, sandbox: &str, signal: Signal) {
    let keeper = keeper_of(fixture.data.path(), sandbox).open().unwrap();
    pidfd_send_signal(&keeper, signal).unwrap();
}

/// Waits until the sandbox is shown as something other than `ready`, and returns the time and what is shown.
#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
async fn until_not_ready(fixture: &Fixture, sandbox: &str) -> (Duration, String) {
    let began = Instant::now();
    loop {
        let seen = fixture.get(&format!("/api/sandbox/{sandbox}")).await.json();
        let state = seen["status"]["state"].as_str().unwrap().to_owned();
        if state != "ready" || began.elapsed() > 3 * AT_MOST {
            return (began.elapsed(), state);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_with_a_stopped_keeper_turns_unknown_within_five_seconds_and_ready_again_afterwards() {
    with_server(|fixture| async move {
        let (stopped, sound) = (fixture.sandbox().await, fixture.sandbox().await);

        signal(&fixture, &stopped, Signal::STOP);
        let (took, state) = until_not_ready(&fixture, &stopped).await;
        let beside = fixture.get(&format!("/api/sandbox/{sound}")).await.json();
        signal(&fixture, &stopped, Signal::CONT);
        let path = format!("/api/sandbox/{stopped}");
        let is_ready = |it: &serde_json::Value| (it["status"]["state"] == "ready").then_some(());
        fixture.until("it is ready again", &path, is_ready).await;

        assert!(took < AT_MOST, "{state} after {took:?}");
        assert_eq!((state.as_str(), &beside["status"]["state"]), ("unknown", &json!("ready")));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_with_a_killed_keeper_is_not_ready_for_more_than_five_seconds() {
    with_server(|fixture| async move {
        let sandbox = fixture.sandbox().await;

        signal(&fixture, &sandbox, Signal::KILL);
        let (took, state) = until_not_ready(&fixture, &sandbox).await;

        assert!(took < AT_MOST, "{state} after {took:?}");
    })
    .await;
}
