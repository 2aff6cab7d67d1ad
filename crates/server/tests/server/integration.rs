//! What whoever runs agents relies on, end to end: from the wish for a run to the figures it leaves, with real sandboxes
//! and asked for as clients do.

mod cleanup_automation;
mod monitoring_dashboard;
mod recovery;
mod sandbox_integration;

use std::time::Duration;

use pinfold_api::{
    AgentRequest, AgentRun, CreateSandbox, ExecRequest, ExecResult, Finding, LimitsWish, Receipt,
};
use pinfold_client::{Answered, Client, upload};
use serde_json::{Value, json};

/// Says so, and waits until it is let go.
const HELD: &str = "echo ready; while [ ! -e /workspace/go ]; do sleep 0.05; done";
/// Some tenths of a second of the processor, and at least 30 MB.
const HEAVY: &str =
    "x=$(head -c 30000000 /dev/zero | tr '\\0' x); i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

fn asked(agent_type: &str, context: Value) -> AgentRequest {
    let request = json!({ "taskId": "task_1", "agentType": agent_type, "context": context });
    serde_json::from_value(request).unwrap()
}

/// A script of an agent, from the wish to the proof that its sandbox is gone.
async fn run(client: &Client, agent_type: &str, script: &str) -> AgentRun {
    run_with(client, agent_type, json!({ "script": script })).await
}

async fn run_with(client: &Client, agent_type: &str, context: Value) -> AgentRun {
    match client.run_agent(&asked(agent_type, context), 60).await.unwrap() {
        Answered::Done(run) => run,
        Answered::Pending(run) => panic!("it is not over: {run:#?}"),
    }
}

/// A run that has said that it is ready, and goes on.
async fn begin(client: &Client, agent_type: &str, context: Value) -> AgentRun {
    match client.run_agent(&asked(agent_type, context), 0).await.unwrap() {
        Answered::Done(run) => panic!("it is over: {run:#?}"),
        Answered::Pending(run) => {
            until("it is ready", || async {
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

/// A run when it is over.
async fn end_of(client: &Client, run: &AgentRun) -> AgentRun {
    match client.agent_run(&run.execution_id, 60).await.unwrap() {
        Answered::Done(run) => run,
        Answered::Pending(run) => panic!("it is not over: {run:#?}"),
    }
}

fn small() -> LimitsWish {
    LimitsWish { memory_mb: Some(64), ..LimitsWish::default() }
}

async fn sandbox(client: &Client, limits: LimitsWish) -> String {
    client.create(&CreateSandbox { limits, ..CreateSandbox::default() }).await.unwrap().id
}

async fn sh(client: &Client, sandbox: &str, script: &str) -> ExecResult {
    exec(client, sandbox, ExecRequest::of(["sh", "-c", script].map(str::to_owned).to_vec())).await
}

async fn exec(client: &Client, sandbox: &str, request: ExecRequest) -> ExecResult {
    match client.exec(sandbox, &request).await.unwrap() {
        Answered::Done(ended) => ended,
        Answered::Pending(running) => panic!("it is not over: {running:#?}"),
    }
}

fn is_proof(receipt: Option<&Receipt>) -> bool {
    let absent = |receipt: &Receipt| receipt.checks.iter().all(|check| check.result == Finding::Absent);
    receipt.is_some_and(|receipt| receipt.checks.len() >= 6 && absent(receipt) && receipt.attested.is_none())
}

fn stdout(run: &AgentRun) -> &str {
    run.output.as_ref().and_then(|output| output.stdout.as_deref()).unwrap_or_default()
}

/// From one moment in RFC 3339 to another.
fn ms_between(from: &str, to: &str) -> i64 {
    let at = |moment: &str| moment.parse::<jiff::Timestamp>().unwrap().as_millisecond();
    at(to) - at(from)
}

#[track_caller]
fn assert_close(told: Option<f64>, expected: f64, within: f64) {
    assert!(told.is_some_and(|told| (told - expected).abs() <= within), "{told:?} instead of {expected}");
}

async fn until<T, Met>(what: &str, met: impl Fn() -> Met) -> T
where
    Met: Future<Output = Option<T>>,
{
    let look = async {
        loop {
            if let Some(found) = met().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), look).await.unwrap_or_else(|_| panic!("never: {what}"))
}
