//! A server that is killed during a run: the next server reports the result.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pinfold_api::{AgentRequest, ArtifactState, Cause, ExecutionState};
use pinfold_client::{Client, Completion};
use pinfold_engine::{ArtifactCollector, Parts};
use pinfold_host::TestHooks;
use pinfold_http::{Endpoint, ServerConfig, serve};
use pinfold_lifecycle::{Fact, Timestamp};
use pinfold_provider::{Files, InstanceId};
use pinfold_store::{Seq, StoredExecution};
use pinfold_test_support::{until_async, until_some};
use serde_json::json;
use tokio::net::TcpListener;

use crate::fixture::{Fixture, TEST_TIMEOUT, start_service_behind};

/// Data directory of the process to be killed.
const SERVE_IN: &str = "PINFOLD_TEST_SERVE_IN";
/// Set: that process never gets as far as collecting artifacts.
const COLLECTS_NOTHING: &str = "PINFOLD_TEST_COLLECTS_NOTHING";

/// A collector that has not begun when its process is killed.
struct NeverCollects;

#[async_trait]
impl ArtifactCollector for NeverCollects {
    async fn collect(&self, _: &dyn Files, _: InstanceId, _: &StoredExecution, _: Timestamp) {
        std::future::pending().await
    }
}

/// The process to be killed: this test program, started with only this test. It ends by the kill or with its parent.
#[tokio::test(flavor = "multi_thread")]
async fn helper_process_serves_for_another_test() {
    let Some(data) = std::env::var_os(SERVE_IN) else { return };
    let data = std::path::PathBuf::from(data);
    let mut hooks = TestHooks::default();
    if std::env::var_os(COLLECTS_NOTHING).is_some() {
        hooks.parts = Box::new(|parts| Parts { artifacts: Arc::new(NeverCollects), ..parts });
    }
    let (service, _) = start_service_behind(&data, hooks).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let draft = data.join("address.draft");
    std::fs::write(&draft, listener.local_addr().unwrap().to_string()).unwrap();
    std::fs::rename(draft, data.join("address")).unwrap();
    let bounded = tokio::time::sleep(Duration::from_secs(120));
    serve(service, vec![Endpoint::plain(listener)], &ServerConfig::default(), bounded).await.unwrap();
}

struct Process(Child);

impl Process {
    async fn start(data: &std::path::Path) -> (Self, Client) {
        Self::start_with(data, |_| {}).await
    }

    async fn start_with(data: &std::path::Path, configure: impl FnOnce(&mut Command)) -> (Self, Client) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "on_linux::killed_server::helper_process_serves_for_another_test"]);
        command.env(SERVE_IN, data).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        configure(&mut command);
        let process = Self(command.spawn().unwrap());
        let address = until_some("the other process serves", || async {
            std::fs::read_to_string(data.join("address")).ok()
        });
        let address = address.await;
        let token = std::fs::read_to_string(data.join("admin.token")).unwrap();
        (process, Client::new(&format!("http://{address}"), &token).unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a run, waits for its first output, and returns its id.
async fn start_run(client: &Client) -> String {
    let script = "cat seed; echo begun; sleep 1; echo over > result; echo done";
    let context = json!({ "script": script, "files": { "seed": "fresh\n" }, "artifacts": ["result"] });
    let request = json!({ "taskId": "task_1", "agentType": "VALIDATION", "context": context });
    let request: AgentRequest = serde_json::from_value(request).unwrap();
    let Completion::Pending(run) = client.run_agent(&request, 0).await.unwrap() else { panic!("it is over") };
    until_some("it has written output", || async {
        let output = client.output(&run.execution_id, 0).await.unwrap();
        output.events.into_iter().next()
    })
    .await;
    run.execution_id
}

#[tokio::test(flavor = "multi_thread")]
async fn run_survives_a_killed_server() {
    run_across_kill(async |_| {}).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_that_ends_without_a_server_is_reported_by_the_next() {
    run_across_kill(async |data| {
        until_async("the run has ended", async || contains_bytes(&data.join("linux/logs"), b"done\n")).await;
    })
    .await;
}

/// A server killed between the end of a process and the collection of its artifacts: until then the execution is shown
/// as collecting, and the next server collects them and writes the one outcome.
#[tokio::test(flavor = "multi_thread")]
async fn artifacts_left_by_a_killed_server_are_collected_by_the_next() {
    let data = tempfile::tempdir().unwrap();
    let (process, client) = Process::start_with(data.path(), |command| {
        command.env(COLLECTS_NOTHING, "1");
    })
    .await;
    let collecting = async move {
        let id = start_run(&client).await;
        loop {
            let execution = client.execution(&id).await.unwrap();
            if execution.state == ExecutionState::Collecting {
                return execution;
            }
            assert_eq!(execution.state, ExecutionState::Running);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let left = tokio::spawn(tokio::time::timeout(TEST_TIMEOUT, collecting)).await;

    drop(process);
    let next = Fixture::start(data, ServerConfig::default()).await;
    let (answer, ends) = match &left {
        Ok(Ok(execution)) => {
            let id = &execution.execution_id;
            let answer = next.client().agent_run(id, 60).await;
            (Some(answer), outcomes_in_history(&next, &execution.sandbox_id).await)
        }
        Ok(Err(_)) | Err(_) => (None, 0),
    };
    for left in next.client().list("").await.unwrap_or_default() {
        next.delete(&format!("/api/sandbox/{}?force=1", left.id)).await;
    }
    next.end().await;

    let Some(Ok(Completion::Done(run))) = answer else { panic!("{left:?}: {answer:?}") };
    let before = left.unwrap().unwrap();
    assert_eq!((before.exit_code, before.ended_at), (None, None));
    assert!(before.started_at.is_some());
    assert_eq!((run.exit_code, run.cause), (Some(0), Some(Cause::Completed)), "{run:#?}");
    assert_eq!((run.artifacts[0].state, run.artifacts[0].size), (ArtifactState::Kept, Some(5)));
    assert_eq!((ends, run.attempts.len()), (1, 1), "{:#?}", run.attempts);
}

/// How many outcomes of executions the history of a sandbox contains.
async fn outcomes_in_history(fixture: &Fixture, sandbox: &str) -> usize {
    let store = &fixture.service.host().store;
    let history = store.history(Some(sandbox.parse().unwrap()), Seq::default(), 10_000).await.unwrap();
    history.iter().filter(|row| matches!(row.record.fact, Fact::ExecutionEnded { .. })).count()
}

/// Whether any file below the directory contains the bytes.
fn contains_bytes(directory: &Path, what: &[u8]) -> bool {
    std::fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        let contains = |text: Vec<u8>| text.windows(what.len()).any(|piece| piece == what);
        if path.is_dir() { contains_bytes(&path, what) } else { std::fs::read(path).is_ok_and(contains) }
    })
}

/// Kills the server during a run, runs `meanwhile`, and checks the result from the next server.
async fn run_across_kill(meanwhile: impl AsyncFnOnce(&Path)) {
    let data = tempfile::tempdir().unwrap();
    let (process, client) = Process::start(data.path()).await;
    let starting = async move { start_run(&client).await };
    let begun = tokio::spawn(tokio::time::timeout(TEST_TIMEOUT, starting)).await;

    drop(process);
    meanwhile(data.path()).await;
    let next = Fixture::start(data, ServerConfig::default()).await;
    let answer = match &begun {
        Ok(Ok(id)) => Some(next.client().agent_run(id, 60).await),
        Ok(Err(_)) | Err(_) => None,
    };
    // Clean up also if the test fails.
    for left in next.client().list("").await.unwrap_or_default() {
        next.delete(&format!("/api/sandbox/{}?force=1", left.id)).await;
    }
    next.end().await;

    let Some(Ok(Completion::Done(run))) = answer else { panic!("{begun:?}: {answer:?}") };
    assert_eq!((run.exit_code, run.cause), (Some(0), Some(Cause::Completed)), "{run:#?}");
    assert_eq!(run.output.unwrap().stdout.as_deref(), Some("fresh\nbegun\ndone\n"));
    assert_eq!((run.artifacts[0].state, run.artifacts[0].size), (ArtifactState::Kept, Some(5)));
    assert!(run.receipt.is_some() && run.attempts.len() == 1, "{:#?}", run.attempts);
}
