//! `stop-across`: two servers on one store, and every sandbox of the one ended through the other.

use anyhow::{Result, ensure};
use pinfold_bench_report::{Measurements, at_most, now};
use serde_json::{Value, json};

use crate::Session;
use crate::api::connection::Connection;
use crate::api::in_milliseconds;
use crate::api::server::Server;
use crate::peers::LeftoverCgroups;
use crate::table::{print_header, print_measurements, print_titles};

const P99_MS: f64 = 1_000.0;

pub(crate) fn run(session: &Session) -> Result<()> {
    let _traces = LeftoverCgroups;
    let one = session.runtime.block_on(Server::begin())?;
    let other = session.runtime.block_on(one.beside())?;
    print_header("forced stop through the server that does not own it, to the receipt", session)?;
    let (runs, token) = (session.runs, one.token.clone());
    let (owner, stopper) = (one.address, other.address);
    let measured = session.run(async move {
        let (mut owner, mut stopper) =
            (Connection::tcp(owner, &token).await?, Connection::tcp(stopper, &token).await?);
        let mut live = Vec::new();
        for _ in 0..runs {
            let id = owner.create().await?;
            let busy = json!({ "command": ["sleep", "1000"], "background": true });
            owner.request("POST", &format!("/api/sandbox/{id}/exec"), Some(busy), 202).await?;
            live.push(id);
        }
        let mut taken = Measurements::default();
        for id in &live {
            let begun = now();
            let receipt: Value = serde_json::from_slice(&stopper.delete(id).await?)?;
            taken.add(begun.elapsed());
            let checks = receipt["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
            let is_proof = checks.len() >= 6 && checks.iter().all(|check| check["result"] == "absent");
            ensure!(is_proof, "no proof: {receipt}");
        }
        Ok(taken)
    });
    let ended = other.end().and(one.end());
    let taken = measured?;
    print_titles(&format!("{runs} live sandboxes of the other server"));
    print_measurements("stop through this one", &taken);
    at_most("stop across servers, p99", in_milliseconds(taken.p99()), P99_MS, " ms");
    ended
}
