//! `exec`: a command in a live sandbox, from the request to its first byte of output, next to `docker exec`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use pinfold_bench_report::{Measurements, at_most, now};
use pinfold_lifecycle::SandboxId;

use crate::Session;
use crate::host::{Host, LIMITS, directory_on_disk};
use crate::peers::{Docker, LeftoverCgroups, Peer, Programs};
use crate::run_timing::COMMAND;
use crate::table::{print_header, print_measurements, print_titles, ratio};

const ROUNDS: usize = 10;
/// `docker exec` gets this many fewer runs.
const SLOW: usize = 10;
const TO_DOCKER: f64 = 1.0 / 40.0;

pub(crate) fn run(session: &Session) -> Result<()> {
    let directory = directory_on_disk()?;
    let traces = LeftoverCgroups;
    let programs = Programs::fetch()?;
    let docker = Docker::begin(&programs, directory.path(), &traces)?;
    let peer = docker.as_ref().map(Docker::exec_peer).transpose()?;
    let host = Arc::new(session.runtime.block_on(Host::begin())?);
    let measured = measure(session, &host, peer.as_ref());
    let ended = session.runtime.block_on(host.end());
    measured?;
    ended
}

fn measure(session: &Session, host: &Arc<Host>, peer: Option<&Peer>) -> Result<()> {
    print_header(
        "request to first output byte of `echo` in a live sandbox; the host's /usr read-only",
        session,
    )?;
    let starting = host.clone();
    let sandbox = session.run(async move { starting.ready(LIMITS).await })?;
    let (mut own, mut theirs) = (Measurements::default(), Measurements::default());
    let runs = session.runs.div_ceil(ROUNDS);
    for _ in 0..ROUNDS.min(session.runs) {
        session.interrupt.check()?;
        let host = host.clone();
        own.extend(session.run(async move { many(&host, sandbox, runs).await })?);
        if let Some(peer) = peer {
            let (lives, _) = peer.batch(runs.div_ceil(SLOW), 1)?;
            theirs.extend(lives.iter().map(|life| life.first_byte));
        }
    }
    print_titles("");
    print_measurements("Pinfold, through the engine", &own);
    if let Some(peer) = peer {
        print_measurements(peer.name, &theirs);
        println!("\n{}", peer.version);
        at_most("exec to docker exec's, p50", ratio(own.p50(), theirs.p50()), TO_DOCKER, "x");
    }
    Ok(())
}

pub(crate) async fn many(host: &Host, sandbox: SandboxId, runs: usize) -> Result<Vec<Duration>> {
    let mut taken = Vec::new();
    for _ in 0..runs {
        let begun = now();
        let execution = host.execute(sandbox, &COMMAND).await?;
        let _notes = host.first_byte(sandbox, execution).await?;
        taken.push(begun.elapsed());
        host.wait_execution(sandbox, execution).await?;
    }
    Ok(taken)
}
