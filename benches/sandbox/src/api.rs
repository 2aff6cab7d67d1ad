//! `api`: create, exec and delete over HTTP, compared with Docker's Engine API and with the engine without HTTP;
//! lists and totals with a thousand sandboxes; and an idle server.

pub(crate) mod connection;
mod contestants;
pub(crate) mod server;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pinfold_bench_report::{Measurements, at_least, at_most, milliseconds, now};

use crate::Session;
use crate::host::{Host, directory_on_disk};
use crate::peers::{Docker, LeftoverCgroups, Programs};
use crate::table::{print_header, print_measurements, print_titles, ratio};
use contestants::Contestant;
use server::Server;

const CLIENTS: [usize; 3] = [1, 8, 64];
const TURNS: usize = 4;
/// Docker gets this many fewer runs.
const SLOW: usize = 10;
const TO_DOCKER: f64 = 20.0;
const JUDGED_CLIENTS: usize = 8;
const HTTP_ADDS_MS: f64 = 1.0;
const MANY: usize = 1_000;
const READS: usize = 100;
const LIST_MS: f64 = 20.0;
const REST_MIB: f64 = 40.0;
const BEGIN_MS: f64 = 100.0;
const IDLE_PERCENT: f64 = 2.0;
const IDLE: Duration = Duration::from_secs(10);

pub(crate) fn run(session: &Session) -> Result<()> {
    let _traces = LeftoverCgroups;
    let directory = directory_on_disk()?;
    let docker = Docker::begin(&Programs::fetch()?, directory.path(), &LeftoverCgroups)?;
    let host = Arc::new(session.runtime.block_on(Host::begin())?);
    print_header(
        "create, exec, delete, one after the other; Pinfold with limits, probes and a durable receipt, over HTTP on TCP; \
         docker over its unix socket, no network, no limits; all clients in this one process",
        session,
    )?;
    let measured = measure_idle_server(session).and_then(|()| rates(session, &host, docker.as_ref()));
    let ended = session.runtime.block_on(host.end());
    measured?;
    ended?;
    drop(docker);
    many(session)
}

/// An idle server without sandboxes.
fn measure_idle_server(session: &Session) -> Result<()> {
    let (mut begin, mut resident) = (Measurements::default(), 0.0_f64);
    for _ in 0..if session.quick { 3 } else { 10 } {
        let server = session.runtime.block_on(Server::begin())?;
        begin.add(server.began);
        resident = resident.max(server.resident_mib()?);
        server.end()?;
    }
    print_titles("");
    print_measurements("from start to the first /healthz", &begin);
    at_most("start to /healthz, p50", begin.p50().as_secs_f64() * 1e3, BEGIN_MS, " ms");
    at_most("resident at rest", resident, REST_MIB, " MiB");
    println!();
    Ok(())
}

fn rates(session: &Session, host: &Arc<Host>, docker: Option<&Docker>) -> Result<()> {
    let server = session.runtime.block_on(Server::begin())?;
    let mut contestants = vec![
        (Contestant::Engine(host.clone()), 1),
        (Contestant::Pinfold { address: server.address, token: server.token.clone() }, 1),
    ];
    match docker {
        Some(docker) => contestants.push((Contestant::Docker { socket: docker.socket.clone() }, SLOW)),
        None => println!("docker is not here"),
    }
    println!("{:<44}{:>8}{:>12}{:>12}{:>12}", "", "clients", "p50 ms", "p99 ms", "per second");
    let (mut medians, mut judged) = (Vec::new(), Vec::new());
    for clients in CLIENTS {
        let mut taken = vec![BatchTimes::default(); contestants.len()];
        // Interleaved, so that other load on the machine affects all of them alike.
        for turn in 0..TURNS {
            for ((contestant, slow), taken) in contestants.iter().zip(&mut taken) {
                session.interrupt.check()?;
                let runs = (session.runs / slow).max(clients * TURNS);
                let own = runs / TURNS + usize::from(turn < runs % TURNS);
                taken.add(batch(session, contestant, own, clients)?);
            }
        }
        for ((contestant, _), BatchTimes { figures, lives, time }) in contestants.iter().zip(&taken) {
            let (p50, p99) = (milliseconds(figures.p50()), milliseconds(figures.p99()));
            let rate = lives / time.as_secs_f64();
            println!("{:<44}{clients:>8}{p50:>12}{p99:>12}{rate:>12.1}", contestant.name());
            if clients == 1 {
                medians.push(figures.p50());
            }
            if clients == JUDGED_CLIENTS {
                judged.push(rate);
            }
        }
    }
    println!();
    if let [_, ours, dockers] = judged[..] {
        at_least(&format!("rate at {JUDGED_CLIENTS} clients, to docker's"), ours / dockers, TO_DOCKER, "x");
    }
    if let [engine, http, ..] = medians[..] {
        let adds = http.as_secs_f64() * 1e3 - engine.as_secs_f64() * 1e3;
        at_most("HTTP adds at the median", adds, HTTP_ADDS_MS, " ms");
        println!("HTTP to the engine alone at the median: {:.2}x\n", ratio(http, engine));
    }
    server.end()
}

/// Times of several batches.
#[derive(Clone, Default)]
struct BatchTimes {
    figures: Measurements,
    lives: f64,
    time: Duration,
}

impl BatchTimes {
    fn add(&mut self, (lives, time): (Vec<Duration>, Duration)) {
        #[expect(clippy::cast_precision_loss, reason = "thousands at the most")]
        let count = lives.len() as f64;
        self.lives += count;
        self.time += time;
        lives.into_iter().for_each(|taken| self.figures.add(taken));
    }
}

/// Runs so many cycles with so many clients. Returns their times and the total.
fn batch(
    session: &Session,
    contestant: &Contestant,
    runs: usize,
    clients: usize,
) -> Result<(Vec<Duration>, Duration)> {
    let contestant = contestant.clone();
    session.run(async move {
        let begun = now();
        let workers: Vec<_> = (0..clients)
            .map(|client| {
                let own = runs / clients + usize::from(client < runs % clients);
                tokio::spawn(contestant.clone().lives(own))
            })
            .collect();
        let mut lives = Vec::new();
        for worker in workers {
            lives.extend(worker.await??);
        }
        Ok((lives, begun.elapsed()))
    })
}

/// Reads with a thousand sandboxes.
fn many(session: &Session) -> Result<()> {
    let count = if session.quick { MANY / 10 } else { MANY };
    let server = session.runtime.block_on(Server::begin())?;
    let (address, token) = (server.address, server.token.clone());
    let read = session.run(async move {
        let mut caller = connection::Connection::tcp(address, &token).await?;
        let makers = (0..8).map(|maker| {
            let (own, token) = (count / 8 + usize::from(maker < count % 8), token.clone());
            tokio::spawn(async move {
                let mut caller = connection::Connection::tcp(address, &token).await?;
                for _ in 0..own {
                    caller.create().await?;
                }
                anyhow::Ok(())
            })
        });
        for maker in makers.collect::<Vec<_>>() {
            maker.await??;
        }
        let mut figures = Vec::new();
        for path in ["/api/sandbox/list?limit=100", "/api/sandbox/list?limit=1000", "/api/sandbox/stats"] {
            let mut taken = Measurements::default();
            for _ in 0..READS {
                let begun = now();
                let answer = caller.request("GET", path, None, 200).await?;
                taken.add(begun.elapsed());
                ensure!(!answer.is_empty(), "an empty answer");
            }
            figures.push((path, taken));
        }
        Ok(figures)
    });
    let idle = read.is_ok().then(|| idle_share(&server));
    let resident = server.resident_mib();
    let ended = server.end();
    let (read, idle, resident) = (read?, idle.transpose()?.unwrap_or_default(), resident?);
    print_titles(&format!("with {count} sandboxes"));
    for (path, taken) in &read {
        print_measurements(path, taken);
    }
    println!();
    let slowest = read.iter().map(|(_, taken)| taken.p99()).max().context("nothing was read")?;
    at_most("list and stats, p99", in_milliseconds(slowest), LIST_MS, " ms");
    at_most("server at rest, of one core", idle, IDLE_PERCENT, "%");
    println!("resident with {count} sandboxes: {resident:.1} MiB");
    ended
}

/// Idle CPU use in percent of one core.
fn idle_share(server: &Server) -> Result<f64> {
    let (begun, before) = (now(), server.cpu_time()?);
    std::thread::sleep(IDLE);
    Ok((server.cpu_time()?.saturating_sub(before)).as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0)
}

pub(crate) fn in_milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
