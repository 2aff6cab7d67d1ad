//! End-to-end tests of agent runs: from the request to the metrics, with real sandboxes and through the public
//! client.

mod cleanup_automation;
mod monitoring_dashboard;
mod recovery;
mod sandbox_integration;

use pinfold_api::{
    AgentRequest, AgentRun, CreateSandbox, ExecRequest, ExecResult, Finding, LimitsRequest, Receipt,
};
use pinfold_client::{Client, Completion, upload};
use pinfold_test_support::until_some;
use serde_json::{Value, json};

/// Prints `ready` and waits for a file.
const HELD: &str = "echo ready; while [ ! -e /workspace/go ]; do sleep 0.05; done";
/// Uses some tenths of a second of CPU and at least 30 MB.
const HEAVY: &str =
    "x=$(head -c 30000000 /dev/zero | tr '\\0' x); i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

fn agent_request(agent_type: &str, context: Value) -> AgentRequest {
    let request = json!({ "taskId": "task_1", "agentType": agent_type, "context": context });
    serde_json::from_value(request).unwrap()
}

/// Runs an agent script until its sandbox is proven gone.
async fn run(client: &Client, agent_type: &str, script: &str) -> AgentRun {
    run_with(client, agent_type, json!({ "script": script })).await
}

async fn run_with(client: &Client, agent_type: &str, context: Value) -> AgentRun {
    match client.run_agent(&agent_request(agent_type, context), 60).await.unwrap() {
        Completion::Done(run) => run,
        Completion::Pending(run) => panic!("it is not over: {run:#?}"),
    }
}

/// Starts a run and waits until it prints `ready`.
async fn begin(client: &Client, agent_type: &str, context: Value) -> AgentRun {
    match client.run_agent(&agent_request(agent_type, context), 0).await.unwrap() {
        Completion::Done(run) => panic!("it is over: {run:#?}"),
        Completion::Pending(run) => {
            until_some("it is ready", || async {
                let page = client.output(&run.execution_id, 0).await.unwrap();
                json!(page.events).to_string().contains("ready").then_some(())
            })
            .await;
            run
        }
    }
}

async fn let_go(client: &Client, run: &AgentRun) {
    let (nothing, content) = upload();
    let write = client.write_file(&run.sandbox_id, b"/workspace/go", None, content);
    let (_, written) = tokio::join!(nothing.finish(), write);
    written.unwrap();
}

/// Waits for the end of a run.
async fn end_of(client: &Client, run: &AgentRun) -> AgentRun {
    match client.agent_run(&run.execution_id, 60).await.unwrap() {
        Completion::Done(run) => run,
        Completion::Pending(run) => panic!("it is not over: {run:#?}"),
    }
}

fn small() -> LimitsRequest {
    LimitsRequest { memory_mb: Some(64), ..LimitsRequest::default() }
}

async fn sandbox(client: &Client, limits: LimitsRequest) -> String {
    client.create(&CreateSandbox { limits, ..CreateSandbox::default() }).await.unwrap().id
}

async fn sh(client: &Client, sandbox: &str, script: &str) -> ExecResult {
    exec(client, sandbox, ExecRequest::of(["sh", "-c", script].map(str::to_owned).to_vec())).await
}

async fn exec(client: &Client, sandbox: &str, request: ExecRequest) -> ExecResult {
    match client.exec(sandbox, &request).await.unwrap() {
        Completion::Done(ended) => ended,
        Completion::Pending(running) => panic!("it is not over: {running:#?}"),
    }
}

fn is_proof(receipt: Option<&Receipt>) -> bool {
    let absent = |receipt: &Receipt| receipt.checks.iter().all(|check| check.result == Finding::Absent);
    receipt.is_some_and(|receipt| receipt.checks.len() >= 6 && absent(receipt) && receipt.attested.is_none())
}

fn stdout(run: &AgentRun) -> &str {
    run.output.as_ref().and_then(|output| output.stdout.as_deref()).unwrap_or_default()
}

/// Milliseconds between two RFC 3339 times.
fn ms_between(from: &str, to: &str) -> i64 {
    let at = |moment: &str| moment.parse::<jiff::Timestamp>().unwrap().as_millisecond();
    at(to) - at(from)
}

#[track_caller]
fn assert_close(reported: Option<f64>, expected: f64, within: f64) {
    assert!(
        reported.is_some_and(|reported| (reported - expected).abs() <= within),
        "{reported:?} instead of {expected}"
    );
}
