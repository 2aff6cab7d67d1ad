//! One cycle over the API: create, exec, delete. Cycles differ, so that everything a server stores is stored and
//! removed: most use the defaults, some have their own disk, and some are an agent run with an artifact.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::connection::{Connection, ServerAddress};

const EVERY: u64 = 10;
const WITH_DISK: u64 = 3;
const OF_AGENT: u64 = 7;

pub(crate) async fn run(server: &ServerAddress, number: u64) -> Result<()> {
    let mut connection = Connection::open(server).await?;
    let key = format!("cycle-{number}");
    match number % EVERY {
        OF_AGENT => run_agent(&mut connection, &key).await?,
        WITH_DISK => use_once(&mut connection, &key, json!({ "memory_mb": 64, "disk_mb": 64 })).await?,
        _ => use_once(&mut connection, &key, json!({})).await?,
    }
    connection.close().await;
    Ok(())
}

async fn use_once(connection: &mut Connection, key: &str, limits: Value) -> Result<()> {
    let id = create(connection, key, limits).await?;
    let body = json!({ "command": ["sh", "-c", "echo begun > begun; cat begun; echo done >&2"] });
    let result =
        connection.request(("POST", &format!("/api/sandbox/{id}/exec")), None, Some(body), 200).await?;
    ensure!(result["exit_code"] == 0, "the command failed: {result}");
    delete(connection, &id).await
}

async fn run_agent(connection: &mut Connection, key: &str) -> Result<()> {
    let context = json!({ "script": "echo report > report.txt; echo written", "artifacts": ["report.txt"] });
    let body = json!({ "taskId": key, "agentType": "VALIDATION", "context": context });
    let run = connection.request(("POST", "/api/agents/execute?wait=60"), Some(key), Some(body), 200).await?;
    ensure!(run["exit_code"] == 0, "the agent failed: {run}");
    Ok(())
}

/// Creates a sandbox and returns its id when it is ready.
pub(crate) async fn create(connection: &mut Connection, key: &str, limits: Value) -> Result<String> {
    let body = json!({ "labels": { "made-by": "soak" }, "limits": limits });
    let created = connection.request(("POST", "/api/sandbox"), Some(key), Some(body), 201).await?;
    Ok(created["id"].as_str().context("the sandbox has no id")?.to_owned())
}

/// Deletes it and waits for the receipt.
pub(crate) async fn delete(connection: &mut Connection, id: &str) -> Result<()> {
    let path = format!("/api/sandbox/{id}?force=true&wait=60");
    connection.request(("DELETE", &path), None, None, 200).await.map(drop)
}
