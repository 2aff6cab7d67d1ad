//! One round: a server under load, one fault in the middle of it, and then the checks of resources, reported state
//! and acknowledged data.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use pinfold_checker::{Deadline, Promises, Stopwatch, Violation};

use super::client::{Client, Target};
use super::fault::Fault;
use super::fixture::Fixture;
use super::injection::Injection;
use super::server::{Program, Server};
use super::verifier::Verifier;
use crate::failpoint_server::Guard;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The round's directory
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
/// How long the system may take to settle. A busy machine takes its time.
const SETTLE: Duration = Duration::from_secs(45);
/// The same where a missing guard keeps it from settling.
const SETTLE_IN_VAIN: Duration = Duration::from_secs(12);

const LINES: usize = 20;

/// What a round reports, however far it came.
#[derive(Default)]
struct Report {
    summary: String,
    violations: Vec<Violation>,
}

pub(crate) struct Round<'a> {
    pub(super) fixture: &'a Fixture,
    pub(super) fault: Fault,
    pub(super) rng: fastrand::Rng,
    pub(super) verifier: Verifier,
    program: Program,
    server: Option<Server>,
    target: &'a Target,
}

/// Whether the round passed. It prints the details.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let begun = Stopwatch::start();
    let fixture =
        Fixture::prepare(&options.directory, &format!("pinfold-chaos.{}", unique(&options.directory)))?;
    let mut report = Report::default();
    let result = run_round(options, &fixture, &mut report);
    let Report { summary, violations } = report;
    println!("{summary}; {:.1} s", begun.elapsed().as_secs_f32());
    for violation in &violations {
        println!("  {violation}");
    }
    if let Err(error) = &result {
        println!("  {error:#}\n{}", end_of_log(&fixture));
    }
    let held = result.is_ok() && violations.is_empty();
    if let Some(keep) = options.keep.as_ref().filter(|_| !held) {
        keep_evidence(&fixture, &keep.join(options.seed.to_string()))?;
    }
    Ok(held)
}

/// The end of the server's log.
fn end_of_log(fixture: &Fixture) -> String {
    let log = std::fs::read_to_string(fixture.directory.join("log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

fn unique(directory: &Path) -> String {
    directory
        .file_name()
        .map(|name| name.to_string_lossy().trim_start_matches('.').to_owned())
        .unwrap_or_default()
}

fn keep_evidence(fixture: &Fixture, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    let own = ["log", "threads"].map(|name| fixture.directory.join(name));
    let rows =
        ["pinfold.db", "pinfold.db-wal", "pinfold.db-shm"].map(|name| fixture.data.join("store").join(name));
    for from in own.iter().chain(&rows).filter(|from| from.exists()) {
        std::fs::copy(from, to.join(from.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

fn run_round(options: &Options, fixture: &Fixture, report: &mut Report) -> Result<()> {
    let program = match (&options.pinfold, options.fault.needs_failpoints() || options.without.is_some()) {
        (Some(pinfold), false) => Program::Real(pinfold.clone()),
        _ => Program::WithFailpoints(without(options.without)),
    };
    let server = Server::start(fixture, &program)?;
    let target = Target::new(server.api.clone());
    let mut round = Round {
        fixture,
        fault: options.fault,
        rng: fastrand::Rng::with_seed(options.seed),
        verifier: Verifier::of(fixture, if options.without.is_some() { SETTLE_IN_VAIN } else { SETTLE })?,
        program,
        server: Some(server),
        target: &target,
    };
    let (injection, mut promises) = round.load(options.seed)?;
    report.summary = format!(
        "{injection}; {} sandboxes, {} executions, {} files, {} deletes, {} answered and {} not",
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
    report.violations = round.verifier.all(server, &mut promises)?;
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
        // The crashed one is reaped first.
        drop(self.server.take());
        let server = Server::start(self.fixture, &self.program)?;
        self.target.moved_to(server.api.clone());
        self.server = Some(server);
        Ok(())
    }

    /// Runs all clients, and injects the fault in the middle.
    fn load(&mut self, seed: u64) -> Result<(Injection, Promises)> {
        let target = self.target;
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| scope.spawn(move || Client::new(target, number, seed).work()))
                .collect();
            let has_acknowledged = || target.has_acknowledged.load(Ordering::Relaxed).then_some(());
            Deadline::after(Duration::from_secs(20)).poll(has_acknowledged);
            std::thread::sleep(Duration::from_millis(self.rng.u64(100..900)));
            let injection = self.inject();
            std::thread::sleep(Duration::from_millis(self.rng.u64(200..800)));
            target.is_over.store(true, Ordering::Relaxed);
            let mut promises = Promises::default();
            for client in clients {
                promises.add(client.join().ok().context("a client panicked")?);
            }
            Ok((injection?, promises))
        })
    }
}
