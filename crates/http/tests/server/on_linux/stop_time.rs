//! A stop is proven in under five seconds, whatever runs in the sandbox and however busy the host is.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::fixture::{sh, with_server};

const AT_MOST: Duration = Duration::from_secs(5);

/// Processes that keep two cores busy, ended with the test. `timeout` bounds them if the test is killed.
struct BusyHost(Vec<Child>);

impl BusyHost {
    fn begin() -> Self {
        let spin = || Command::new("timeout").args(["120", "sh", "-c", "while :; do :; done"]).spawn();
        Self((0..2).map(|_| spin().unwrap()).collect())
    }
}

impl Drop for BusyHost {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Not SIGKILL: `timeout` passes SIGTERM on to its command.
            let pid = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let _ = child.wait();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a stop of real processes takes real time")]
async fn stop_is_proven_in_time(processes: usize) {
    with_server(|fixture| async move {
        let limits = json!({ "processes": processes + 100, "memory_mb": 2048 });
        let made = fixture.post("/api/sandbox", json!({ "limits": limits })).await.json();
        let id = made["id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        // Children inherit the ignored signal.
        let script = format!(
            "trap '' TERM; i=1; while [ $i -lt {processes} ]; do sleep 300 & i=$((i+1)); done; echo all; \
             while :; do sleep 300; done"
        );
        let execution = fixture.sh_in_background(&id, sh(&script)).await;
        let output = format!("/api/executions/{execution}/output");
        let started = |it: &serde_json::Value| it["events"][0]["text"].is_string().then_some(());
        fixture.until("all processes run", &output, started).await;
        let _busy = BusyHost::begin();

        let began = Instant::now();
        let stopped = fixture.delete(&format!("/api/sandbox/{id}")).await;
        let took = began.elapsed();

        let receipt = stopped.json();
        assert_eq!((stopped.status, &receipt["cause"]), (200, &json!("stopped_by_user")), "{receipt}");
        assert!(took < AT_MOST, "{processes} stubborn processes were proven gone after {took:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_of_a_process_that_ignores_sigterm_is_proven_within_five_seconds() {
    stop_is_proven_in_time(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_of_100_processes_that_ignore_sigterm_is_proven_within_five_seconds() {
    stop_is_proven_in_time(100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_of_1000_processes_that_ignore_sigterm_is_proven_within_five_seconds() {
    stop_is_proven_in_time(1_000).await;
}
