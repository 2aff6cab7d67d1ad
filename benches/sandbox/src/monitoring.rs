//! `monitoring`: the overhead of monitoring per execution. Compares a server that exports every span and is
//! scraped all the time with a server that only counts, and with the engine alone.

mod collector;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use pinfold_bench_report::{Measurements, at_most, now};
use pinfold_lifecycle::SandboxId;
use serde_json::json;

use crate::Session;
use crate::api::connection::Connection;
use crate::api::in_milliseconds;
use crate::api::server::Server;
use crate::host::{Host, LIMITS};
use crate::peers::LeftoverCgroups;
use crate::run_timing::COMMAND;
use crate::table::{print_header, print_measurements, print_titles, ratio};
use collector::Collector;

const ROUNDS: usize = 10;
/// More often than a usual Prometheus.
const READ_EVERY: Duration = Duration::from_secs(1);
const ADDS_MS: f64 = 10.0;

pub(crate) fn run(session: &Session) -> Result<()> {
    let _traces = LeftoverCgroups;
    let collector = session.runtime.block_on(Collector::begin())?;
    let host = Arc::new(session.runtime.block_on(Host::begin())?);
    let counting = session.runtime.block_on(Server::begin())?;
    let told =
        [("PINFOLD_TELEMETRY_ENDPOINT", collector.url()), ("PINFOLD_TELEMETRY_INTERVAL", "1s".to_owned())];
    let watched = session.runtime.block_on(Server::begin_with_env(&told))?;
    let measured = measure(session, &host, &counting, &watched);
    let ended = session.runtime.block_on(host.end()).and(counting.end()).and(watched.end());
    measured?;
    ensure!(collector.messages() > 0, "the collector received no message");
    ended
}

fn measure(session: &Session, host: &Arc<Host>, counting: &Server, watched: &Server) -> Result<()> {
    print_header(
        "request to the end of `echo` in a live sandbox; with HTTP, except for the engine alone",
        session,
    )?;
    let starting = host.clone();
    let sandbox = session.run(async move { starting.ready(LIMITS).await })?;
    let (counting, watched) = (SandboxTarget::on(session, counting)?, SandboxTarget::on(session, watched)?);
    let reading = session.runtime.spawn(scrape_loop(watched.clone()));
    let (mut alone, mut counted, mut seen) =
        (Measurements::default(), Measurements::default(), Measurements::default());
    let runs = session.runs.div_ceil(ROUNDS);
    // Interleaved, so that other load on the machine affects all of them alike.
    for _ in 0..ROUNDS.min(session.runs) {
        session.interrupt.check()?;
        let host = host.clone();
        alone.extend(session.run(async move { by_engine(&host, sandbox, runs).await })?);
        counted.extend(session.run(counting.clone().many(runs))?);
        seen.extend(session.run(watched.clone().many(runs))?);
    }
    reading.abort();
    print_titles("");
    print_measurements("the engine alone, not watched", &alone);
    print_measurements("a server that counts, for its own alerts", &counted);
    print_measurements("with traces, figures sent and read", &seen);
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
struct SandboxTarget {
    address: SocketAddr,
    token: String,
    sandbox: String,
}

impl SandboxTarget {
    fn on(session: &Session, server: &Server) -> Result<Self> {
        let (address, token) = (server.address, server.token.clone());
        session.run(async move {
            let sandbox = Connection::tcp(address, &token).await?.create().await?;
            Ok(Self { address, token, sandbox })
        })
    }

    async fn many(self, runs: usize) -> Result<Vec<Duration>> {
        let mut caller = Connection::tcp(self.address, &self.token).await?;
        let path = format!("/api/sandbox/{}/exec", self.sandbox);
        let mut taken = Vec::new();
        for _ in 0..runs {
            let begun = now();
            let said =
                caller.request_field("stdout", "POST", &path, json!({ "command": COMMAND }), 200).await?;
            taken.push(begun.elapsed());
            ensure!(said == "ready\n", "it said {said:?}");
        }
        Ok(taken)
    }
}

/// Scrapes as Prometheus does.
async fn scrape_loop(place: SandboxTarget) -> Result<()> {
    let mut caller = Connection::tcp(place.address, &place.token).await?;
    loop {
        caller.request("GET", "/metrics", None, 200).await?;
        tokio::time::sleep(READ_EVERY).await;
    }
}
