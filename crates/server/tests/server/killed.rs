//! A server that is killed while a run goes on: the next one has the answer.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pinfold_api::{AgentRequest, ArtifactState, Cause};
use pinfold_client::{Answered, Client};
use pinfold_server::http::{Door, ServerConfig, serve};
use serde_json::json;
use tokio::net::TcpListener;

use crate::ground::{Ground, PATIENCE, service_on};

/// Where the process that is to be killed serves.
const SERVE_IN: &str = "PINFOLD_TEST_SERVE_IN";

/// The process that is killed: this very program, asked for this alone. It ends only so, or with whoever started it.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_serves_where_another_test_wants_it() {
    let Some(data) = std::env::var_os(SERVE_IN) else { return };
    let data = std::path::PathBuf::from(data);
    let (service, _) = service_on(&data).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let draft = data.join("address.draft");
    std::fs::write(&draft, listener.local_addr().unwrap().to_string()).unwrap();
    std::fs::rename(draft, data.join("address")).unwrap();
    let bounded = tokio::time::sleep(Duration::from_secs(120));
    serve(service, vec![Door::plain(listener)], &ServerConfig::default(), bounded).await.unwrap();
}

struct Process(Child);

impl Process {
    async fn begin(data: &std::path::Path) -> (Self, Client) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "killed::a_process_serves_where_another_test_wants_it"]);
        command.env(SERVE_IN, data).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Self(command.spawn().unwrap());
        let told = async {
            loop {
                if let Ok(address) = std::fs::read_to_string(data.join("address")) {
                    return address;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let address = tokio::time::timeout(Duration::from_secs(30), told).await.expect("it does not serve");
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

/// The id of a run that has begun to write.
async fn begin_run(client: Client) -> String {
    let script = "cat seed; echo begun; sleep 1; echo over > result; echo done";
    let context = json!({ "script": script, "files": { "seed": "fresh\n" }, "artifacts": ["result"] });
    let request = json!({ "taskId": "task_1", "agentType": "VALIDATION", "context": context });
    let request: AgentRequest = serde_json::from_value(request).unwrap();
    let Answered::Pending(run) = client.run_agent(&request, 0).await.unwrap() else { panic!("it is over") };
    while client.output(&run.execution_id, 0).await.unwrap().events.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    run.execution_id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_outlives_the_server_that_was_asked_for_it() {
    see_through(async |_| {}).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_while_no_server_is_there_is_told_with_its_artifacts_by_the_next_one() {
    see_through(async |data| {
        let written = async {
            while !says(&data.join("linux/logs"), b"done\n") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, written).await.expect("it does not end");
    })
    .await;
}

/// Whether anything below this directory contains these bytes.
fn says(directory: &Path, what: &[u8]) -> bool {
    std::fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        let is_said = |text: Vec<u8>| text.windows(what.len()).any(|piece| piece == what);
        if path.is_dir() { says(&path, what) } else { std::fs::read(path).is_ok_and(is_said) }
    })
}

/// Kills the server of a run, waits for something, and has the answer from the next one.
async fn see_through(meanwhile: impl AsyncFnOnce(&Path)) {
    let data = tempfile::tempdir().unwrap();
    let (process, client) = Process::begin(data.path()).await;
    let begun = tokio::spawn(tokio::time::timeout(PATIENCE, begin_run(client))).await;

    drop(process);
    meanwhile(data.path()).await;
    let next = Ground::begin(data, ServerConfig::default()).await;
    let answer = match &begun {
        Ok(Ok(id)) => Some(next.client().agent_run(id, 60).await),
        Ok(Err(_)) | Err(_) => None,
    };
    // However this ends, nothing is left.
    for left in next.client().list("").await.unwrap_or_default() {
        next.delete(&format!("/api/sandbox/{}?force=1", left.id)).await;
    }
    next.end().await;

    let Some(Ok(Answered::Done(run))) = answer else { panic!("{begun:?}: {answer:?}") };
    assert_eq!((run.exit_code, run.cause), (Some(0), Some(Cause::Completed)), "{run:#?}");
    assert_eq!(run.output.unwrap().stdout.as_deref(), Some("fresh\nbegun\ndone\n"));
    assert_eq!((run.artifacts[0].state, run.artifacts[0].size), (ArtifactState::Kept, Some(5)));
    assert!(run.receipt.is_some() && run.attempts.len() == 1, "{:#?}", run.attempts);
}
