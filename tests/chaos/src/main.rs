//! Kills the makers of real sandboxes at random moments and looks from outside at what is left: after the next
//! `pinfold reconcile` nothing may be there of what nobody wants, and all that is wanted must still work.

#![allow(clippy::print_stdout, reason = "a program for a terminal: what it prints is what it is for")]

mod maker;
mod node;
mod outside;
mod round;
mod rounds;
mod tally;
mod victim;
mod visitor;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "pinfold-chaos", about = "Kills the makers of sandboxes, and looks at what is left")]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Go through a number of rounds
    Run(rounds::Options),
    /// Make sandboxes without end, and say which ones are there to stay
    Maker { data: PathBuf, seed: u64 },
    /// Read back what was written into sandboxes: pairs of a sandbox and a word
    Visitor { data: PathBuf, words: Vec<String> },
    /// Stop everything
    Stopper { data: PathBuf },
    #[command(name = node::NURSERY)]
    Nursery,
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().role {
        Role::Run(options) => return rounds::run(&options),
        Role::Maker { data, seed } => maker::live(&data, seed)?,
        Role::Visitor { data, words } => visitor::read_back(&data, &words)?,
        Role::Stopper { data } => visitor::stop_all(&data)?,
        Role::Nursery => pinfold_keeper::nursery::run()?,
    }
    Ok(ExitCode::SUCCESS)
}
