//! One round: a server under load, one fault in the middle of it, and then the judgement of what is there, what is said
//! and what was promised.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use pinfold_checker::{Complaint, Patience, Promises, Stopwatch};

use super::blow::Blow;
use super::client::{Client, Front};
use super::fault::Fault;
use super::ground::Ground;
use super::judge::Judge;
use super::server::{Program, Server};
use crate::served::Guard;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where everything of this round is kept
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    seed: u64,
    /// The program under test
    #[arg(long)]
    pinfold: Option<PathBuf>,
    #[arg(long, value_enum)]
    fault: Fault,
    #[arg(long, value_enum)]
    without: Option<Guard>,
    /// Where to put the store and the log of a round that failed
    #[arg(long)]
    keep: Option<PathBuf>,
}

const CLIENTS: u64 = 3;
/// How long it may take until everything is as it should be. A machine that is busy takes its time.
const SETTLE: Duration = Duration::from_secs(45);
/// The same where it is not going to be so.
const SETTLE_IN_VAIN: Duration = Duration::from_secs(12);

const LINES: usize = 20;

/// What there is to say of a round, however far it came.
#[derive(Default)]
struct Report {
    told: String,
    complaints: Vec<Complaint>,
}

pub(crate) struct Round<'a> {
    pub(super) ground: &'a Ground,
    pub(super) fault: Fault,
    pub(super) rng: fastrand::Rng,
    pub(super) judge: Judge,
    program: Program,
    server: Option<Server>,
    front: &'a Front,
}

/// Whether it held. What it prints tells the rest.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let begun = Stopwatch::start();
    let ground =
        Ground::prepare(&options.directory, &format!("pinfold-chaos.{}", unique(&options.directory)))?;
    let mut report = Report::default();
    let played = play(options, &ground, &mut report);
    let Report { told, complaints } = report;
    println!("{told}; {:.1} s", begun.elapsed().as_secs_f32());
    for complaint in &complaints {
        println!("  {complaint}");
    }
    if let Err(error) = &played {
        println!("  {error:#}\n{}", end_of_log(&ground));
    }
    let held = played.is_ok() && complaints.is_empty();
    if let Some(keep) = options.keep.as_ref().filter(|_| !held) {
        keep_evidence(&ground, &keep.join(options.seed.to_string()))?;
    }
    Ok(held)
}

/// How a server that failed took its leave.
fn end_of_log(ground: &Ground) -> String {
    let log = std::fs::read_to_string(ground.directory.join("log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

fn unique(directory: &Path) -> String {
    directory
        .file_name()
        .map(|name| name.to_string_lossy().trim_start_matches('.').to_owned())
        .unwrap_or_default()
}

fn keep_evidence(ground: &Ground, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    let own = ["log", "threads"].map(|name| ground.directory.join(name));
    let rows =
        ["pinfold.db", "pinfold.db-wal", "pinfold.db-shm"].map(|name| ground.data.join("store").join(name));
    for from in own.iter().chain(&rows).filter(|from| from.exists()) {
        std::fs::copy(from, to.join(from.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

fn play(options: &Options, ground: &Ground, report: &mut Report) -> Result<()> {
    let program = match (&options.pinfold, options.fault.needs_gates() || options.without.is_some()) {
        (Some(pinfold), false) => Program::Real(pinfold.clone()),
        _ => Program::Gated(without(options.without)),
    };
    let server = Server::start(ground, &program)?;
    let front = Front::new(server.api.clone());
    let mut round = Round {
        ground,
        fault: options.fault,
        rng: fastrand::Rng::with_seed(options.seed),
        judge: Judge::of(ground, if options.without.is_some() { SETTLE_IN_VAIN } else { SETTLE })?,
        program,
        server: Some(server),
        front: &front,
    };
    let (blow, mut promises) = round.load(options.seed)?;
    report.told = format!(
        "{blow}; {} sandboxes, {} executions, {} files, {} deletes, {} answered and {} not",
        promises.sandboxes.len(),
        promises.executions.len(),
        promises.files.len(),
        promises.deleted.len(),
        promises.answered,
        promises.refused
    );
    if round.server()?.is_dead() {
        round.start_again()?;
    }
    let server = round.server.take().context("there is no server")?;
    report.complaints = round.judge.all(server, &mut promises)?;
    Ok(())
}

fn without(guard: Option<Guard>) -> Vec<String> {
    use clap::ValueEnum;
    let name = guard.and_then(|guard| guard.to_possible_value());
    name.map(|name| vec!["--without".to_owned(), name.get_name().to_owned()]).unwrap_or_default()
}

impl Round<'_> {
    pub(super) fn server(&mut self) -> Result<&mut Server> {
        self.server.as_mut().context("there is no server")
    }

    pub(super) fn start_again(&mut self) -> Result<()> {
        // The dead one first: it is waited for.
        drop(self.server.take());
        let server = Server::start(self.ground, &self.program)?;
        self.front.moved_to(server.api.clone());
        self.server = Some(server);
        Ok(())
    }

    /// Everybody at work, and in the middle of it the fault.
    fn load(&mut self, seed: u64) -> Result<(Blow, Promises)> {
        let front = self.front;
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| scope.spawn(move || Client::new(front, number, seed).work()))
                .collect();
            let has_begun = || front.has_begun.load(Ordering::Relaxed).then_some(());
            Patience::of(Duration::from_secs(20)).until(has_begun);
            std::thread::sleep(Duration::from_millis(self.rng.u64(100..900)));
            let blow = self.strike();
            std::thread::sleep(Duration::from_millis(self.rng.u64(200..800)));
            front.is_over.store(true, Ordering::Relaxed);
            let mut promises = Promises::default();
            for client in clients {
                promises.add(client.join().ok().context("a client panicked")?);
            }
            Ok((blow?, promises))
        })
    }
}
