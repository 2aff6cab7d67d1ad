//! The `pinfold` program. Each command is a module; most run their request on a [`backend::Backend`], which is a server
//! or the same service in this process. Start reading at [`Command`].

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

mod alert;
mod announcement;
mod audit;
mod backend;
mod bulk;
mod cleanup;
mod colour;
mod config;
mod console;
mod cp;
mod create;
mod data_directory;
mod demo;
mod doctor;
mod environment;
mod events;
mod exec;
mod exit;
mod failure;
mod file_stream;
mod find;
mod follow;
mod health;
mod heap;
mod host;
mod image;
mod inspect;
mod json_output;
mod logs;
mod manual;
mod named_values;
mod options;
mod output;
mod progress;
mod ps;
mod queue_wait;
mod reconcile;
#[cfg(test)]
mod reference;
mod repeated_failures;
mod rm;
mod run;
mod runtime;
mod serve;
mod settings;
mod shell;
mod stats;
mod stdout;
mod stop;
mod table;
mod token;
mod top;
mod units;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::runtime::{run_in_runtime, run_in_server_runtime};

#[derive(Parser)]
#[command(
    name = "pinfold",
    version,
    about = "Run agents in sandboxes, and prove that they are gone",
    after_help = exit::CODES
)]
struct Arguments {
    #[command(flatten)]
    global: GlobalOptions,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Clone, clap::Args)]
struct GlobalOptions {
    /// Directory of sandboxes and records; by default `/var/lib/pinfold` for root, else `pinfold` in the
    /// XDG data home
    #[arg(long, value_name = "DIRECTORY", env = "PINFOLD_DATA_DIR", global = true)]
    data_dir: Option<PathBuf>,
    /// Server to use, with the token in `PINFOLD_TOKEN`; by default the server that runs on the data
    /// directory, if any
    #[arg(long, value_name = "URL", env = "PINFOLD_URL", global = true)]
    url: Option<String>,
    /// Use no server; do everything in this process
    #[arg(long, global = true)]
    local: bool,
    /// Print one JSON document, also for errors
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run five demo agents (one works, one loops, one hangs, one leaks memory, one is stopped) and clean up
    Demo(demo::Options),
    /// Run a command in a new sandbox, then prove that the sandbox is gone
    Run(run::Options),
    /// Create a sandbox that runs until you stop it or it expires, and print its id
    Create(create::Options),
    /// Run a command in an existing sandbox
    Exec(exec::Options),
    /// Copy a file or directory into or out of a sandbox
    Cp(cp::Options),
    /// Open a shell in a sandbox
    Shell(shell::Options),
    /// Stop sandboxes and print the receipts that prove them gone
    Stop(stop::Options),
    /// Serve the HTTP API until this process is terminated
    Serve(serve::Options),
    /// Show the configuration, or print a template
    #[command(subcommand)]
    Config(config::Configuration),
    /// List sandboxes
    Ps(ps::Options),
    /// Show everything about one sandbox, also after its end
    Inspect(inspect::Options),
    /// Print the log of a sandbox, also after its end
    Logs(logs::Options),
    /// Print the events of one sandbox, or of all
    Events(events::Options),
    /// Print counts and metrics of all sandboxes, or the resource usage of one
    Stats(stats::Options),
    /// Check the store, the provider and cleanup, and list firing alerts
    Health,
    /// Delete the records of sandboxes that are proven gone
    Rm(rm::Options),
    /// Compare records with instances, without repairing anything
    Audit,
    /// Watch sandboxes and their resource usage on a live screen; read logs and stop sandboxes by key
    Top(top::Options),
    /// Compare records with instances, and repair the differences
    Reconcile(reconcile::Options),
    /// Stop sandboxes that are past a deadline, unhealthy or silent; or all of an age; or in an emergency all that are not critical
    Cleanup(cleanup::Options),
    /// Report what this machine can enforce, or diagnose one sandbox
    Doctor(doctor::Options),
    /// Import, list and remove images
    #[command(subcommand)]
    Image(image::Image),
    /// List, acknowledge, silence and test alerts
    #[command(subcommand)]
    Alert(alert::Alerts),
    /// Create, list and revoke access tokens of a server
    #[command(subcommand)]
    Token(token::Tokens),
    /// Print a completion script; save it where your shell looks for completions
    Completions(manual::Options),
    /// Print the manual page; view it with `pinfold man | man -l -`
    Man,
    /// Complete the start of a new sandbox
    #[command(name = create::FINISH_CREATE, hide = true)]
    FinishCreate(create::FinishCreate),
    /// Spawn keepers
    #[command(name = host::SPAWNER, hide = true)]
    Spawner,
    /// Unpack an archive, confined
    #[command(name = pinfold_images::UNPACK, hide = true)]
    Unpack { request: String },
}

/// A release must not be built with the test feature that can disable sandbox guards.
const _: () = assert!(!pinfold_keeper::IS_WEAKENED, "built with sandbox guards that can be disabled");

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return report_usage_error(&error),
    };
    let Arguments { global, command } = arguments;
    let (outcome, failed) = match &command {
        Command::Demo(options) => (run_in_server_runtime(demo::run(&global, options)), exit::FAILED),
        Command::Run(options) => (run_in_runtime(run::run(&global, options)), exit::FAILED_TO_RUN),
        Command::Exec(options) => (run_in_runtime(exec::run(&global, options)), exit::FAILED_TO_RUN),
        Command::Shell(options) => (run_in_runtime(shell::run(&global, options)), exit::FAILED_TO_RUN),
        Command::Cp(options) => (run_in_runtime(cp::run(&global, options)), exit::FAILED),
        Command::Create(options) => (run_in_runtime(create::run(&global, options)), exit::FAILED),
        Command::FinishCreate(options) => {
            (run_in_runtime(create::finish_create(&global, options)), exit::FAILED)
        }
        Command::Stop(options) => (run_in_runtime(stop::run(&global, options)), exit::FAILED),
        Command::Serve(options) => (run_in_server_runtime(serve::run(&global, options)), exit::FAILED),
        Command::Config(command) => (config::run(&global, command), exit::FAILED),
        Command::Ps(options) => (run_in_runtime(ps::run(&global, options)), exit::FAILED),
        Command::Inspect(options) => (run_in_runtime(inspect::run(&global, options)), exit::FAILED),
        Command::Logs(options) => (run_in_runtime(logs::run(&global, options)), exit::FAILED),
        Command::Events(options) => (run_in_runtime(events::run(&global, options)), exit::FAILED),
        Command::Stats(options) => (run_in_runtime(stats::run(&global, options)), exit::FAILED),
        Command::Health => (run_in_runtime(health::run(&global)), exit::FAILED),
        Command::Rm(options) => (run_in_runtime(rm::run(&global, options)), exit::FAILED),
        Command::Audit => (run_in_runtime(audit::run(&global)), exit::FAILED),
        Command::Top(options) => (run_in_runtime(top::run(&global, options)), exit::FAILED),
        Command::Reconcile(options) => (run_in_runtime(reconcile::run(&global, options)), exit::FAILED),
        Command::Cleanup(options) => (run_in_runtime(cleanup::run(&global, options)), exit::FAILED),
        Command::Doctor(options) => (run_in_runtime(doctor::run(&global, options)), exit::FAILED),
        Command::Image(command) => (run_in_runtime(image::run(&global, command)), exit::FAILED),
        Command::Alert(command) => (run_in_runtime(alert::run(&global, command)), exit::FAILED),
        Command::Token(command) => (run_in_runtime(token::run(&global, command)), exit::FAILED),
        Command::Completions(options) => (manual::completions(options), exit::FAILED),
        Command::Man => (manual::man(), exit::FAILED),
        Command::Spawner => {
            let run = pinfold_keeper::spawner::run().map(|()| ExitCode::SUCCESS);
            (run.map_err(Into::into), exit::FAILED)
        }
        Command::Unpack { request } => {
            let run = pinfold_images::unpack::run(request).map(ExitCode::from);
            (run.map_err(Into::into), exit::FAILED)
        }
    };
    outcome.unwrap_or_else(|error| failure::report(&error, global.json, failed))
}

/// Prints a usage error, as JSON if `--json` was given, or the help text.
fn report_usage_error(error: &clap::Error) -> ExitCode {
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let own = std::env::args_os().take_while(|argument| argument != "--");
    if !is_help && own.collect::<Vec<OsString>>().iter().any(|argument| argument == "--json") {
        let rendered = error.render().to_string();
        // The rest of the text is usage advice.
        let message = rendered.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        // A closed standard output is not a failure.
        let _ = stdout::print(format!("{}\n", json_output::error("bad_usage", message)).as_bytes());
        return ExitCode::from(exit::BAD_INPUT);
    }
    // If the terminal is gone, there is no other place to report to.
    let _ = error.print();
    if is_help { ExitCode::SUCCESS } else { ExitCode::from(exit::BAD_INPUT) }
}
