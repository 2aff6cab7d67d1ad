//! `cargo xtask bench start`, `exec`, `stop`, `density`, `neighbour`, `api`, `stop-across` and `monitoring`: the
//! cost of sandboxes, compared with other runtimes in the same run. Start reading at `start.rs`.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

mod api;
mod bare_group;
mod density;
mod exec;
mod first_byte;
mod host;
mod interrupt;
mod monitoring;
mod neighbour;
mod own_session;
mod peers;
mod run_timing;
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
        /// No peers: only the breakdown of a Pinfold run
        #[arg(long)]
        breakdown: bool,
    },
    /// A command in a live sandbox, up to its first output byte
    Exec(Options),
    /// Stopping a thousand processes that resist
    Stop(Options),
    /// A thousand idle sandboxes
    Density(Options),
    /// The effect on one sandbox of another that runs into its limits
    Neighbour(Options),
    /// A server over HTTP, next to Docker's
    Api(Options),
    /// Sandboxes of one server stopped through another
    StopAcross(Options),
    /// The overhead of monitoring per execution
    Monitoring(Options),
    #[command(name = host::SPAWNER, hide = true)]
    Spawner,
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

/// What every benchmark gets.
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

    /// Runs the measured work on the runtime's threads, as a server does.
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
    if let Bench::Spawner = bench {
        return Ok(pinfold_keeper::spawner::run()?);
    }
    match own_session::enter()? {
        None => measure(bench),
        Some(ended) if ended.success() => Ok(()),
        Some(ended) => bail!("the benchmark ended with {ended}"),
    }
}

fn measure(bench: Bench) -> Result<()> {
    match bench {
        Bench::Spawner => bail!("the spawner measures nothing"),
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
