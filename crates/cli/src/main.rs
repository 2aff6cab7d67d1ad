//! The `pinfold` program: what users type.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

mod host;
mod output;
mod reconcile;
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "pinfold", version, about = "Runs agents in sandboxes, and proves that they are gone")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one command in a sandbox of its own, and prove afterwards that the sandbox is gone
    Run(run::Options),
    /// Compare what is recorded with what is there, and repair the difference
    Reconcile(reconcile::Options),
    /// Give birth to keepers
    #[command(name = host::NURSERY, hide = true)]
    Nursery,
}

/// Pinfold itself failed, as opposed to what it ran.
const FAILED: u8 = 125;

/// No program that people run has guards that can be taken out.
const _: () = assert!(!pinfold_keeper::IS_WEAKENED, "built with the guards of sandboxes removable");

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(options) => run::run(&options),
        Command::Reconcile(options) => reconcile::run(&options),
        Command::Nursery => pinfold_keeper::nursery::run().map(|()| ExitCode::SUCCESS).map_err(Into::into),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("pinfold: {error:#}");
        ExitCode::from(FAILED)
    })
}
