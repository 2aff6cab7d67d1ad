//! The compared APIs: each creates a sandbox or container, runs one command, reads its output, and deletes it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use pinfold_bench_report::now;
use pinfold_lifecycle::Cause;
use serde_json::json;

use super::connection::Connection;
use crate::host::{Host, LIMITS};
use crate::peers::IMAGE;
use crate::run_timing::COMMAND;

#[derive(Clone)]
pub(super) enum Contestant {
    Engine(Arc<Host>),
    Pinfold { address: SocketAddr, token: String },
    Docker { socket: PathBuf },
}

impl Contestant {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Engine(_) => "Pinfold's engine, without HTTP",
            Self::Pinfold { .. } => "Pinfold over HTTP",
            Self::Docker { .. } => "docker, Engine API",
        }
    }

    /// Runs so many cycles sequentially, as one client.
    pub(super) async fn lives(self, count: usize) -> Result<Vec<Duration>> {
        let mut taken = Vec::new();
        match self {
            Self::Engine(host) => {
                for _ in 0..count {
                    let begun = now();
                    of_engine(&host).await?;
                    taken.push(begun.elapsed());
                }
            }
            Self::Pinfold { address, token } => {
                let mut caller = Connection::tcp(address, &token).await?;
                for _ in 0..count {
                    let begun = now();
                    of_pinfold(&mut caller).await?;
                    taken.push(begun.elapsed());
                }
            }
            Self::Docker { socket } => {
                let mut caller = Connection::unix(&socket).await?;
                for _ in 0..count {
                    let begun = now();
                    of_docker(&mut caller, &socket).await?;
                    taken.push(begun.elapsed());
                }
            }
        }
        Ok(taken)
    }
}

async fn of_engine(host: &Host) -> Result<()> {
    let sandbox = host.ready(LIMITS).await?;
    let execution = host.execute(sandbox, &COMMAND).await?;
    host.wait_execution(sandbox, execution).await?;
    let said = host.output(sandbox, execution)?;
    ensure!(said == b"ready\n", "it said {said:?}");
    host.stop(sandbox, Cause::StoppedByUser).await
}

async fn of_pinfold(caller: &mut Connection) -> Result<()> {
    let id = caller.create().await?;
    let exec = json!({ "command": COMMAND });
    let said = caller.request_field("stdout", "POST", &format!("/api/sandbox/{id}/exec"), exec, 200).await?;
    ensure!(said == "ready\n", "it said {said:?}");
    caller.delete(&id).await.map(drop)
}

async fn of_docker(caller: &mut Connection, socket: &std::path::Path) -> Result<()> {
    let container = json!({
        "Image": IMAGE,
        "Cmd": ["/bin/sleep", "1000000"],
        "HostConfig": { "NetworkMode": "none", "Binds": ["/usr:/usr:ro"] },
    });
    let id = caller.request_field("Id", "POST", "/containers/create", container, 201).await?;
    caller.request("POST", &format!("/containers/{id}/start"), None, 204).await?;
    let exec = json!({ "AttachStdout": true, "Cmd": COMMAND });
    let exec = caller.request_field("Id", "POST", &format!("/containers/{id}/exec"), exec, 201).await?;
    // Docker closes the connection of an exec after its output.
    let mut stream = Connection::unix(socket).await?;
    let begin = json!({ "Detach": false, "Tty": false });
    let said = stream.request("POST", &format!("/exec/{exec}/start"), Some(begin), 200).await?;
    ensure!(said.ends_with(b"ready\n"), "it said {said:?}");
    caller.request("DELETE", &format!("/containers/{id}?force=true"), None, 204).await.map(drop)
}
