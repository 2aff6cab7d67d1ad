//! Injects faults around real sandboxes and checks from outside what is left. `run` kills processes that create
//! sandboxes: after the next `pinfold reconcile` nothing unwanted may exist, and everything wanted must still
//! work. `faults` puts load on a server and injects one fault per round.

#![allow(clippy::print_stdout, reason = "a program for a terminal: what it prints is what it is for")]

mod after_kill;
mod failpoint_server;
mod faults;
mod host_scan;
mod maker;
mod node;
mod round;
mod rounds;
mod tally;
mod victim;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "pinfold-chaos", about = "Injects faults around sandboxes and checks what is left")]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Kill makers of sandboxes, one per round
    Run(rounds::Options),
    /// Go through a number of rounds with a server under load and one fault in each
    Faults(faults::Options),
    /// One fault round, in its own namespaces
    Round(faults::round::Options),
    /// Crash the server at each failpoint of every operation, and each recovering server too
    Failpoints {
        /// Only this operation
        #[arg(long, value_enum)]
        operation: Option<faults::failpoint_walk::Operation>,
    },
    /// The failpoint walk, in its own namespaces
    WalkIsolated(faults::failpoint_walk::Options),
    /// Serve as `pinfold serve` does, with failpoints
    Serve(failpoint_server::Options),
    /// Process 1 of a pid namespace
    Init {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        role: Vec<String>,
    },
    /// Create sandboxes without end, and print which ones must survive
    Maker { data: PathBuf, seed: u64 },
    /// Check what was written into sandboxes: pairs of a sandbox and a word
    ReadBack { data: PathBuf, words: Vec<String> },
    /// Stop all sandboxes
    StopAll { data: PathBuf },
    #[command(name = node::SPAWNER)]
    Spawner,
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().role {
        Role::Run(options) => return rounds::run(&options),
        Role::Faults(options) => return faults::run(&options),
        Role::Round(options) => {
            return Ok(if faults::round::run(&options)? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Role::Failpoints { operation } => return faults::walk(operation),
        Role::WalkIsolated(options) => return faults::failpoint_walk::run(&options),
        Role::Serve(options) => failpoint_server::run(&options)?,
        Role::Init { role } => return faults::isolated::run_init(&role),
        Role::Maker { data, seed } => maker::run_until_killed(&data, seed)?,
        Role::ReadBack { data, words } => after_kill::read_back(&data, &words)?,
        Role::StopAll { data } => after_kill::stop_all(&data)?,
        Role::Spawner => pinfold_keeper::spawner::run()?,
    }
    Ok(ExitCode::SUCCESS)
}
