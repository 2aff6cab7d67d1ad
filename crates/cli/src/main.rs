//! The `pinfold` program: what users type.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

mod alert;
mod audit;
mod cleanup;
mod colour;
mod config;
mod console;
mod cp;
mod create;
mod demo;
mod doctor;
mod documents;
mod events;
mod exec;
mod exit;
mod failure;
mod find;
mod following;
mod heap;
mod host;
mod image;
mod inspect;
mod logs;
mod manual;
mod options;
mod output;
mod overview;
mod pieces;
mod plane;
mod progress;
mod ps;
mod quantities;
mod queueing;
mod reconcile;
#[cfg(test)]
mod reference;
mod rm;
mod run;
mod serve;
mod settings;
mod shell;
mod stdout;
mod stop;
mod table;
mod token;
mod top;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "pinfold",
    version,
    about = "Runs agents in sandboxes, and proves that they are gone",
    after_help = exit::CODES
)]
struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Clone, clap::Args)]
struct Place {
    /// Where sandboxes and their records are kept: by default `/var/lib/pinfold` for root, else `pinfold` in the
    /// XDG data home
    #[arg(long, value_name = "DIRECTORY", env = "PINFOLD_DATA_DIR", global = true)]
    data_dir: Option<PathBuf>,
    /// The server to ask, with the token that `PINFOLD_TOKEN` holds; by default the one that runs on the data
    /// directory, if there is one
    #[arg(long, value_name = "URL", env = "PINFOLD_URL", global = true)]
    url: Option<String>,
    /// Ask no server, and do everything in this process
    #[arg(long, global = true)]
    local: bool,
    /// Print one JSON document, also for an error
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Watch five agents: one works, one loops, one hangs, one leaks memory, one is stopped; leaves nothing behind
    Demo(demo::Options),
    /// Run one command in a sandbox of its own, and prove afterwards that the sandbox is gone
    Run(run::Options),
    /// Make a sandbox that lives until it is stopped or its time is up, and print its id
    Create(create::Options),
    /// Run a command in a sandbox that is there
    Exec(exec::Options),
    /// Copy a file or a directory into a sandbox or out of it
    Cp(cp::Options),
    /// Open a shell in a sandbox, at the terminal here
    Shell(shell::Options),
    /// End sandboxes, and print the proof that they are gone
    Stop(stop::Options),
    /// Serve sandboxes over HTTP, until this process is asked to end
    Serve(serve::Options),
    /// Show how a server is configured here, or what can be
    #[command(subcommand)]
    Config(config::Configuration),
    /// List sandboxes
    Ps(ps::Options),
    /// Show everything about one sandbox, also after its end
    Inspect(inspect::Options),
    /// Print what a sandbox wrote and what was done to it, also after its end
    Logs(logs::Options),
    /// Print what happened to one sandbox, or to all
    Events(events::Options),
    /// Print what all sandboxes come to, or what one uses
    Stats(overview::StatsOptions),
    /// Tell whether what sandboxes need works
    Health,
    /// Forget the records of sandboxes that are proven gone
    Rm(rm::Options),
    /// Compare what is recorded with what is there, and repair nothing
    Audit,
    /// Watch sandboxes on a live screen: what they use, and keys to read their logs and to stop them
    Top(top::Options),
    /// Compare what is recorded with what is there, and repair the difference
    Reconcile(reconcile::Options),
    /// End sandboxes that are stuck; or in an emergency all that are not critical
    Cleanup(cleanup::Options),
    /// Tell what this machine can enforce; or what is wrong with one sandbox, and what to do
    Doctor(doctor::Options),
    /// Import, list and remove what sandboxes can be made from
    #[command(subcommand)]
    Image(image::Image),
    /// See what somebody is called for, and see to it
    #[command(subcommand)]
    Alert(alert::Alerts),
    /// Say who may ask a server, and for what
    #[command(subcommand)]
    Token(token::Tokens),
    /// Print what makes a shell complete commands; put it where your shell looks for completions
    Completions(manual::Options),
    /// Print the manual page; `pinfold man | man -l -` shows it
    Man,
    /// See a new sandbox through its start
    #[command(name = create::TEND, hide = true)]
    Tend(create::Tended),
    /// Give birth to keepers
    #[command(name = host::NURSERY, hide = true)]
    Nursery,
    /// Unpack an archive, confined
    #[command(name = pinfold_images::UNPACK, hide = true)]
    Unpack { request: String },
}

/// No program that people run has guards that can be taken out.
const _: () = assert!(!pinfold_keeper::IS_WEAKENED, "built with the guards of sandboxes removable");

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return misused(&error),
    };
    let Arguments { place, command } = arguments;
    let (outcome, failed) = match &command {
        Command::Demo(options) => (in_server_runtime(demo::run(&place, options)), exit::FAILED),
        Command::Run(options) => (in_runtime(run::run(&place, options)), exit::FAILED_TO_RUN),
        Command::Exec(options) => (in_runtime(exec::run(&place, options)), exit::FAILED_TO_RUN),
        Command::Shell(options) => (in_runtime(shell::run(&place, options)), exit::FAILED_TO_RUN),
        Command::Cp(options) => (in_runtime(cp::run(&place, options)), exit::FAILED),
        Command::Create(options) => (in_runtime(create::run(&place, options)), exit::FAILED),
        Command::Tend(tended) => (in_runtime(create::tend(&place, tended)), exit::FAILED),
        Command::Stop(options) => (in_runtime(stop::run(&place, options)), exit::FAILED),
        Command::Serve(options) => (in_server_runtime(serve::run(&place, options)), exit::FAILED),
        Command::Config(asked) => (config::run(&place, asked), exit::FAILED),
        Command::Ps(options) => (in_runtime(ps::run(&place, options)), exit::FAILED),
        Command::Inspect(options) => (in_runtime(inspect::run(&place, options)), exit::FAILED),
        Command::Logs(options) => (in_runtime(logs::run(&place, options)), exit::FAILED),
        Command::Events(options) => (in_runtime(events::run(&place, options)), exit::FAILED),
        Command::Stats(options) => (in_runtime(overview::stats(&place, options)), exit::FAILED),
        Command::Health => (in_runtime(overview::health(&place)), exit::FAILED),
        Command::Rm(options) => (in_runtime(rm::run(&place, options)), exit::FAILED),
        Command::Audit => (in_runtime(audit::run(&place)), exit::FAILED),
        Command::Top(options) => (in_runtime(top::run(&place, options)), exit::FAILED),
        Command::Reconcile(options) => (in_runtime(reconcile::run(&place, options)), exit::FAILED),
        Command::Cleanup(options) => (in_runtime(cleanup::run(&place, options)), exit::FAILED),
        Command::Doctor(options) => (in_runtime(doctor::run(&place, options)), exit::FAILED),
        Command::Image(asked) => (in_runtime(image::run(&place, asked)), exit::FAILED),
        Command::Alert(asked) => (in_runtime(alert::run(&place, asked)), exit::FAILED),
        Command::Token(asked) => (in_runtime(token::run(&place, asked)), exit::FAILED),
        Command::Completions(options) => (manual::completions(options), exit::FAILED),
        Command::Man => (manual::man(), exit::FAILED),
        Command::Nursery => {
            let run = pinfold_keeper::nursery::run().map(|()| ExitCode::SUCCESS);
            (run.map_err(Into::into), exit::FAILED)
        }
        Command::Unpack { request } => {
            let run = pinfold_images::unpack::run(request).map(ExitCode::from);
            (run.map_err(Into::into), exit::FAILED)
        }
    };
    outcome.unwrap_or_else(|error| failure::report(&error, place.json, failed))
}

fn in_runtime(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(work)
}

/// With a thread for each core, all of which go before the sandboxes' own.
fn in_server_runtime(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    pinfold_keeper::precedence::take_if_alone();
    heap::share_among_threads();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.thread_keep_alive(heap::SPARE_THREAD).enable_all().build()?.block_on(async {
        tokio::select! {
            biased;
            outcome = work => outcome,
            never = heap::give_back_at_intervals() => match never {},
        }
    })
}

/// What was typed is no command. Whoever asked for JSON gets it.
fn misused(error: &clap::Error) -> ExitCode {
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let own = std::env::args_os().take_while(|argument| argument != "--");
    if !is_help && own.collect::<Vec<OsString>>().iter().any(|argument| argument == "--json") {
        let rendered = error.render().to_string();
        // The rest is advice for people.
        let message = rendered.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        // Whoever does not listen any more misses nothing but words.
        let _ = stdout::print(format!("{}\n", documents::error("bad_usage", message)).as_bytes());
        return ExitCode::from(exit::BAD_INPUT);
    }
    // There is nobody left to tell if the terminal is gone.
    let _ = error.print();
    if is_help { ExitCode::SUCCESS } else { ExitCode::from(exit::BAD_INPUT) }
}
