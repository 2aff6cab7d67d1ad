//! `cargo xtask bench start`, `exec`, `stop`, `density`, `neighbour`, `api`, `stop-across` and `monitoring`: what sandboxes
//! cost, next to others of their kind in the same run. Start reading at `start.rs`.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

mod api;
mod bare_group;
mod density;
mod exec;
mod first_byte;
mod host;
mod interrupt;
mod life;
mod monitoring;
mod neighbour;
mod own_session;
mod peers;
mod start;
mod stop;
mod stop_across;
mod table;
mod timed;
mod timeline;

use anyhow::{Result, bail};
use clap::Parser;
use interrupt::Interrupt;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(clap::Subcommand)]
enum Bench {
    /// Create, first output byte, proven gone
    Start {
        #[command(flatten)]
        options: Options,
        /// No peers: only where a life of ours goes
        #[arg(long)]
        breakdown: bool,
    },
    /// A command in a live sandbox, up to its first output byte
    Exec(Options),
    /// The end of a thousand processes that do not want to
    Stop(Options),
    /// A thousand idle sandboxes
    Density(Options),
    /// What one sandbox notices of another that runs into its limits
    Neighbour(Options),
    /// A server over HTTP, next to Docker's
    Api(Options),
    /// Sandboxes of one server ended through another
    StopAcross(Options),
    /// What being watched costs an execution
    Monitoring(Options),
    #[command(name = host::NURSERY, hide = true)]
    Nursery,
}

#[derive(clap::Args)]
struct Options {
    /// How often each thing is measured
    #[arg(long)]
    runs: Option<usize>,
    /// Few runs: to see that it works, not to quote
    #[arg(long)]
    quick: bool,
}

/// What every benchmark is given.
struct Session {
    runs: usize,
    quick: bool,
    interrupt: Interrupt,
    runtime: tokio::runtime::Runtime,
}

impl Session {
    fn begin(options: &Options, runs: usize, quick_runs: usize) -> Result<Self> {
        let runs = options.runs.unwrap_or(if options.quick { quick_runs } else { runs });
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let interrupt = Interrupt::listen(&runtime)?;
        Ok(Self { runs: runs.max(1), quick: options.quick, interrupt, runtime })
    }

    /// Does what is measured, on the threads of the runtime as a server does.
    fn run<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        let mut task = self.runtime.spawn(work);
        self.runtime.block_on(async {
            tokio::select! {
                done = &mut task => done?,
                () = self.interrupt.wait() => {
                    task.abort();
                    bail!("interrupted")
                }
            }
        })
    }
}

fn main() -> Result<()> {
    let bench = Arguments::parse().bench;
    if let Bench::Nursery = bench {
        return Ok(pinfold_keeper::nursery::run()?);
    }
    match own_session::enter()? {
        None => measure(bench),
        Some(ended) if ended.success() => Ok(()),
        Some(ended) => bail!("the benchmark ended with {ended}"),
    }
}

fn measure(bench: Bench) -> Result<()> {
    match bench {
        Bench::Nursery => bail!("a nursery measures nothing"),
        Bench::Start { options, breakdown: true } => start::break_down(&Session::begin(&options, 200, 10)?),
        Bench::Start { options, breakdown: false } => start::run(&Session::begin(&options, 200, 10)?),
        Bench::Exec(options) => exec::run(&Session::begin(&options, 300, 20)?),
        Bench::Stop(options) => stop::run(&Session::begin(&options, 20, 3)?),
        Bench::Density(options) => density::run(&Session::begin(&options, 1_000, 100)?),
        Bench::Api(options) => api::run(&Session::begin(&options, 400, 16)?),
        Bench::StopAcross(options) => stop_across::run(&Session::begin(&options, 50, 10)?),
        Bench::Monitoring(options) => monitoring::run(&Session::begin(&options, 300, 20)?),
        Bench::Neighbour(options) => neighbour::run(&Session::begin(&options, 300, 30)?),
    }
}
