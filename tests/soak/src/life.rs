//! One life of a sandbox over the API: create, exec, delete. They differ in what they are made of, so that everything a
//! server keeps is kept and forgotten: most are as a user gets them who asks for nothing, some have a disk of their own,
//! and some are the run of an agent with an artifact.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::caller::{Caller, Door};

const EVERY: u64 = 10;
const WITH_DISK: u64 = 3;
const OF_AGENT: u64 = 7;

pub(crate) async fn live(door: &Door, number: u64) -> Result<()> {
    let mut caller = Caller::at(door).await?;
    let key = format!("life-{number}");
    match number % EVERY {
        OF_AGENT => run_agent(&mut caller, &key).await?,
        WITH_DISK => use_once(&mut caller, &key, json!({ "memory_mb": 64, "disk_mb": 64 })).await?,
        _ => use_once(&mut caller, &key, json!({})).await?,
    }
    caller.hang_up().await;
    Ok(())
}

async fn use_once(caller: &mut Caller, key: &str, limits: Value) -> Result<()> {
    let id = create(caller, key, limits).await?;
    let wish = json!({ "command": ["sh", "-c", "echo begun > begun; cat begun; echo done >&2"] });
    let result = caller.ask(("POST", &format!("/api/sandbox/{id}/exec")), None, Some(wish), 200).await?;
    ensure!(result["exit_code"] == 0, "the command failed: {result}");
    delete(caller, &id).await
}

async fn run_agent(caller: &mut Caller, key: &str) -> Result<()> {
    let context = json!({ "script": "echo report > report.txt; echo written", "artifacts": ["report.txt"] });
    let wish = json!({ "taskId": key, "agentType": "VALIDATION", "context": context });
    let run = caller.ask(("POST", "/api/agents/execute?wait=60"), Some(key), Some(wish), 200).await?;
    ensure!(run["exit_code"] == 0, "the agent failed: {run}");
    Ok(())
}

/// The id of a sandbox that is ready.
pub(crate) async fn create(caller: &mut Caller, key: &str, limits: Value) -> Result<String> {
    let wish = json!({ "labels": { "made-by": "soak" }, "limits": limits });
    let made = caller.ask(("POST", "/api/sandbox"), Some(key), Some(wish), 201).await?;
    Ok(made["id"].as_str().context("the sandbox has no id")?.to_owned())
}

/// Until it is proven gone.
pub(crate) async fn delete(caller: &mut Caller, id: &str) -> Result<()> {
    let path = format!("/api/sandbox/{id}?force=true&wait=60");
    caller.ask(("DELETE", &path), None, None, 200).await.map(drop)
}
