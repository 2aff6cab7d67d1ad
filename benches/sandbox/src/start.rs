//! `start`: create, first output byte, proven gone; one at a time and eight at once, next to peers on the same root.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use pinfold_bench_report::{Measurements, at_least, at_most, milliseconds, now};

use crate::Session;
use crate::host::{Host, directory_on_disk};
use crate::peers::{Docker, LeftoverCgroups, Peer, Programs};
use crate::run_timing::{self, RunTiming};
use crate::table::{print_header, ratio};
use crate::timeline::{Breakdown, Timeline};

const ROUNDS: usize = 10;
const AT_ONCE: usize = 8;
/// Docker and other slow runtimes get this many fewer runs.
const SLOW: usize = 10;

const COLD_TO_BUBBLEWRAP: f64 = 1.2;
const COLD_TO_DOCKER: f64 = 1.0 / 40.0;
const WARM_TO_BUBBLEWRAP: f64 = 0.3;

enum Contestant {
    Cold(Arc<Host>),
    Peer(Peer),
}

struct Row {
    contestant: Contestant,
    slow: bool,
    first_byte: Measurements,
    whole: Measurements,
    rate: f64,
}

impl Row {
    fn new(contestant: Contestant, slow: bool) -> Self {
        Self {
            contestant,
            slow,
            first_byte: Measurements::default(),
            whole: Measurements::default(),
            rate: 0.0,
        }
    }

    fn name(&self) -> &str {
        match &self.contestant {
            Contestant::Cold(_) => "Pinfold, cold",
            Contestant::Peer(peer) => peer.name,
        }
    }

    fn batch(&self, session: &Session, runs: usize, at_once: usize) -> Result<(Vec<RunTiming>, Duration)> {
        match &self.contestant {
            Contestant::Cold(host) => {
                let host = host.clone();
                session.run(async move { run_timing::cold_batch(&host, runs, at_once).await })
            }
            Contestant::Peer(peer) => peer.batch(runs, at_once),
        }
    }

    fn share(&self, runs: usize) -> usize {
        if self.slow { runs.div_ceil(SLOW) } else { runs }
    }
}

pub(crate) fn run(session: &Session) -> Result<()> {
    let directory = directory_on_disk()?;
    let traces = LeftoverCgroups;
    let programs = Programs::fetch()?;
    let host = Arc::new(session.runtime.block_on(Host::begin())?);
    let measured = contest(session, &host, &programs, directory.path(), &traces);
    let ended = session.runtime.block_on(host.end());
    measured?;
    ended?;
    break_down(session)
}

fn contest(
    session: &Session,
    host: &Arc<Host>,
    programs: &Programs,
    directory: &Path,
    traces: &LeftoverCgroups,
) -> Result<()> {
    let docker = Docker::begin(programs, directory, traces)?;
    let mut rows = contestants(host, programs, docker.as_ref(), directory, traces)?;
    print_header(
        "root of all: the host's /usr read-only; Pinfold with the limits that users get who ask for nothing, its first \
         probe and a durable receipt; the runtimes with limits for memory, processes and CPU; bubblewrap and docker \
         with none of these; the runtimes and docker without a user namespace",
        session,
    )?;
    rows.retain(|row| match row.batch(session, 1, 1) {
        Ok(_) => true,
        Err(error) => {
            println!("{} cannot run here: {error:#}", row.name());
            false
        }
    });
    measure(session, &mut rows)?;
    print(&rows);
    let runs = session.runs;
    let (lives, _) = session.run(async move { Ok((run_timing::warm(runs).await?, Duration::ZERO)) })?;
    let mut warm = Measurements::default();
    lives.iter().for_each(|life| warm.add(life.first_byte));
    let (p50, p99) = (milliseconds(warm.p50()), milliseconds(warm.p99()));
    println!("Pinfold, warm: first byte p50 {p50}, p99 {p99} ({} runs)\n", warm.count());
    print_verdicts(&rows, warm.p50());
    Ok(())
}

fn contestants(
    host: &Arc<Host>,
    programs: &Programs,
    docker: Option<&Docker>,
    directory: &Path,
    traces: &LeftoverCgroups,
) -> Result<Vec<Row>> {
    let mut rows = vec![Row::new(Contestant::Cold(host.clone()), false)];
    let own = std::env::current_exe().context("could not find this program's own file")?;
    let pinfold = own.with_file_name("pinfold");
    if pinfold.exists() {
        let peer = Peer::pinfold_run(&pinfold, &directory.join("pinfold"))?;
        rows.push(Row::new(Contestant::Peer(peer), false));
    }
    let quick = [
        Peer::bubblewrap(programs)?,
        Peer::runtime("crun run", programs, directory, traces)?,
        Peer::runtime("runc run", programs, directory, traces)?,
    ];
    rows.extend(quick.into_iter().flatten().map(|peer| Row::new(Contestant::Peer(peer), false)));
    if let Some(docker) = docker {
        rows.push(Row::new(Contestant::Peer(docker.run_peer()?), true));
    }
    Ok(rows)
}

/// Interleaved, so that other load on the machine affects all of them alike.
fn measure(session: &Session, rows: &mut [Row]) -> Result<()> {
    for _ in 0..ROUNDS.min(session.runs) {
        for row in rows.iter_mut() {
            session.interrupt.check()?;
            let (lives, _) = row.batch(session, row.share(session.runs.div_ceil(ROUNDS)), 1)?;
            row.first_byte.extend(lives.iter().map(|life| life.first_byte));
            row.whole.extend(lives.iter().map(|life| life.whole));
        }
    }
    let mut sums = vec![(0, Duration::ZERO); rows.len()];
    for _ in 0..ROUNDS.min(session.runs).div_ceil(2) {
        for (row, (done, spent)) in rows.iter().zip(&mut sums) {
            session.interrupt.check()?;
            let runs = row.share(session.runs.div_ceil(ROUNDS)).max(1) * AT_ONCE;
            let (lives, elapsed) = row.batch(session, runs, AT_ONCE)?;
            *done += lives.len();
            *spent += elapsed;
        }
    }
    for (row, (done, spent)) in rows.iter_mut().zip(sums) {
        row.rate = rate(done, spent);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "counts of a few minutes")]
fn rate(done: usize, spent: Duration) -> f64 {
    done as f64 / spent.as_secs_f64()
}

fn print(rows: &[Row]) {
    let bubblewrap = find(rows, "bubblewrap").map(|row| row.whole.p50());
    println!(
        "{:<32}{:>9}{:>9}{:>9}{:>9}{:>7}{:>10}{:>10}  version",
        "ms", "byte p50", "p99", "gone p50", "p99", "runs", "8 at once", "to bwrap"
    );
    for row in rows {
        let to_bubblewrap =
            bubblewrap.map_or_else(String::new, |it| format!("{:.2}x", ratio(row.whole.p50(), it)));
        let version = match &row.contestant {
            Contestant::Cold(_) => "through engine and store in this process",
            Contestant::Peer(peer) => &peer.version,
        };
        println!(
            "{:<32}{:>9}{:>9}{:>9}{:>9}{:>7}{:>8.0}/s{to_bubblewrap:>10}  {version}",
            row.name(),
            milliseconds(row.first_byte.p50()),
            milliseconds(row.first_byte.p99()),
            milliseconds(row.whole.p50()),
            milliseconds(row.whole.p99()),
            row.whole.count(),
            row.rate,
        );
    }
    println!();
}

fn find<'a>(rows: &'a [Row], name: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.name().starts_with(name))
}

fn print_verdicts(rows: &[Row], warm: Duration) {
    let Some(cold) = find(rows, "Pinfold, cold") else { return };
    if let Some(bubblewrap) = find(rows, "bubblewrap") {
        let to_bubblewrap = ratio(cold.whole.p50(), bubblewrap.whole.p50());
        at_most("cold, whole life to bubblewrap's, p50", to_bubblewrap, COLD_TO_BUBBLEWRAP, "x");
        let reached = ratio(warm, bubblewrap.whole.p50());
        at_most("warm, first byte to bubblewrap's whole run", reached, WARM_TO_BUBBLEWRAP, "x");
        at_least("8 at once, rate to bubblewrap's", cold.rate / bubblewrap.rate, 1.0, "x");
    }
    if let Some(docker) = find(rows, "docker run") {
        let to_docker = ratio(cold.whole.p50(), docker.whole.p50());
        at_most("cold, whole life to docker run's, p50", to_docker, COLD_TO_DOCKER, "x");
    }
    println!();
}

/// Separate runs, since recording takes time too.
pub(crate) fn break_down(session: &Session) -> Result<()> {
    let timeline = Arc::new(Timeline::default());
    let host = Arc::new(session.runtime.block_on(Host::begin_timed(timeline.clone()))?);
    let mut breakdown = Breakdown::default();
    let measured = (0..session.runs.div_ceil(2)).try_for_each(|_| {
        timeline.take();
        let begun = now();
        let host = host.clone();
        let life = session.run(async move { run_timing::cold(&host).await })?;
        breakdown.add(&timeline.take(), begun, life.whole);
        anyhow::Ok(())
    });
    let measured = measured.and_then(|()| {
        let (host, runs) = (host.clone(), session.runs);
        session.run(async move { run_timing::cold_batch(&host, runs, AT_ONCE).await })
    });
    let ended = session.runtime.block_on(host.end());
    let (lives, took) = measured?;
    ended?;
    breakdown.print("where a cold life goes, ms");
    let mut whole = Measurements::default();
    lives.iter().for_each(|life| whole.add(life.whole));
    println!(
        "{AT_ONCE} at once: {:.0}/s, whole life p50 {}",
        rate(lives.len(), took),
        milliseconds(whole.p50())
    );
    break_down_warm(session)
}

/// The pool is idle meanwhile.
fn break_down_warm(session: &Session) -> Result<()> {
    let timeline = Arc::new(Timeline::default());
    let host = Arc::new(session.runtime.block_on(Host::begin_pooled(Some(timeline.clone())))?);
    let mut breakdown = Breakdown::default();
    let measured = (0..session.runs.div_ceil(2)).try_for_each(|_| {
        let ready = host.clone();
        session.run(async move { ready.wait_pooled().await })?;
        timeline.take();
        let begun = now();
        let used = host.clone();
        let life = session.run(async move { run_timing::warm_one(&used).await })?;
        breakdown.add(&timeline.take(), begun, life.whole);
        anyhow::Ok(())
    });
    let ended = session.runtime.block_on(host.close());
    measured?;
    ended?;
    breakdown.print("where a warm life goes, ms");
    Ok(())
}
