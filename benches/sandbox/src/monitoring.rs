//! `monitoring`: what it costs an execution to be watched. A server whose every span goes to a collector and whose figures
//! are read all the time, next to one that only counts, and to the engine alone, which is not watched at all.

mod collector;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use pinfold_bench_report::{Figures, at_most, now};
use pinfold_lifecycle::SandboxId;
use serde_json::json;

use crate::Session;
use crate::api::caller::Caller;
use crate::api::in_milliseconds;
use crate::api::server::Server;
use crate::host::{Host, LIMITS};
use crate::life::COMMAND;
use crate::peers::Traces;
use crate::table::{print_figures, print_header, print_titles, ratio};
use collector::Collector;

const ROUNDS: usize = 10;
/// More often than anybody's Prometheus does.
const READ_EVERY: Duration = Duration::from_secs(1);
const ADDS_MS: f64 = 10.0;

pub(crate) fn run(session: &Session) -> Result<()> {
    let _traces = Traces;
    let collector = session.runtime.block_on(Collector::begin())?;
    let host = Arc::new(session.runtime.block_on(Host::begin())?);
    let counting = session.runtime.block_on(Server::begin())?;
    let told =
        [("PINFOLD_TELEMETRY_ENDPOINT", collector.url()), ("PINFOLD_TELEMETRY_INTERVAL", "1s".to_owned())];
    let watched = session.runtime.block_on(Server::begin_told(&told))?;
    let measured = measure(session, &host, &counting, &watched);
    let ended = session.runtime.block_on(host.end()).and(counting.end()).and(watched.end());
    measured?;
    ensure!(collector.messages() > 0, "nobody told the collector anything");
    ended
}

fn measure(session: &Session, host: &Arc<Host>, counting: &Server, watched: &Server) -> Result<()> {
    print_header(
        "request to the end of `echo` in a live sandbox; with HTTP, except for the engine alone",
        session,
    )?;
    let starting = host.clone();
    let sandbox = session.run(async move { starting.ready(LIMITS).await })?;
    let (counting, watched) = (Place::on(session, counting)?, Place::on(session, watched)?);
    let reading = session.runtime.spawn(keep_reading(watched.clone()));
    let (mut alone, mut counted, mut seen) = (Figures::default(), Figures::default(), Figures::default());
    let runs = session.runs.div_ceil(ROUNDS);
    // In turns, so that whatever else the machine does meets all of them.
    for _ in 0..ROUNDS.min(session.runs) {
        session.interrupt.check()?;
        let host = host.clone();
        alone.extend(session.run(async move { by_engine(&host, sandbox, runs).await })?);
        counted.extend(session.run(counting.clone().many(runs))?);
        seen.extend(session.run(watched.clone().many(runs))?);
    }
    reading.abort();
    print_titles("");
    print_figures("the engine alone, not watched", &alone);
    print_figures("a server that counts, for its own alerts", &counted);
    print_figures("with traces, figures sent and read", &seen);
    println!();
    let adds = in_milliseconds(seen.p50()) - in_milliseconds(alone.p50());
    at_most("monitoring and HTTP add at the median", adds, ADDS_MS, " ms");
    let adds = in_milliseconds(seen.p99()) - in_milliseconds(alone.p99());
    at_most("monitoring and HTTP add at p99", adds, ADDS_MS, " ms");
    println!("with traces and figures, to a server that counts: {:.2}x", ratio(seen.p50(), counted.p50()));
    Ok(())
}

async fn by_engine(host: &Host, sandbox: SandboxId, runs: usize) -> Result<Vec<Duration>> {
    let mut taken = Vec::new();
    for _ in 0..runs {
        let begun = now();
        let execution = host.execute(sandbox, &COMMAND).await?;
        host.wait_execution(sandbox, execution).await?;
        let said = host.output(sandbox, execution)?;
        taken.push(begun.elapsed());
        ensure!(said == b"ready\n", "it said {said:?}");
    }
    Ok(taken)
}

/// A live sandbox of a server.
#[derive(Clone)]
struct Place {
    address: SocketAddr,
    token: String,
    sandbox: String,
}

impl Place {
    fn on(session: &Session, server: &Server) -> Result<Self> {
        let (address, token) = (server.address, server.token.clone());
        session.run(async move {
            let sandbox = Caller::tcp(address, &token).await?.create().await?;
            Ok(Self { address, token, sandbox })
        })
    }

    async fn many(self, runs: usize) -> Result<Vec<Duration>> {
        let mut caller = Caller::tcp(self.address, &self.token).await?;
        let path = format!("/api/sandbox/{}/exec", self.sandbox);
        let mut taken = Vec::new();
        for _ in 0..runs {
            let begun = now();
            let said = caller.ask_for("stdout", "POST", &path, json!({ "command": COMMAND }), 200).await?;
            taken.push(begun.elapsed());
            ensure!(said == "ready\n", "it said {said:?}");
        }
        Ok(taken)
    }
}

/// As Prometheus does.
async fn keep_reading(place: Place) -> Result<()> {
    let mut caller = Caller::tcp(place.address, &place.token).await?;
    loop {
        caller.ask("GET", "/metrics", None, 200).await?;
        tokio::time::sleep(READ_EVERY).await;
    }
}
