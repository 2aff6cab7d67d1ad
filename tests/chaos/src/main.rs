//! Makes things go wrong around real sandboxes, and looks from outside at what is left. `run` kills the makers of
//! sandboxes: after the next `pinfold reconcile` nothing may be there of what nobody wants, and all that is wanted must
//! still work. `storm` has a server under load, and one fault after another.

#![allow(clippy::print_stdout, reason = "a program for a terminal: what it prints is what it is for")]

mod maker;
mod node;
mod outside;
mod round;
mod rounds;
mod served;
mod storm;
mod tally;
mod victim;
mod visitor;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "pinfold-chaos",
    about = "Makes things go wrong around sandboxes, and looks at what is left"
)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Go through a number of rounds
    Run(rounds::Options),
    /// Go through a number of rounds with a server under load and one fault in each
    Storm(storm::Options),
    /// One of them, in an enclosure
    Round(storm::round::Options),
    /// Kill every operation at each of its points, and whoever takes over, too
    Points {
        /// Only this operation
        #[arg(long, value_enum)]
        operation: Option<storm::points::Operation>,
    },
    /// The same, in an enclosure
    Walk(storm::points::Options),
    /// Serve as `pinfold serve` does, behind gates
    Serve(served::Options),
    /// Process 1 of an enclosure
    First {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        role: Vec<String>,
    },
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
        Role::Storm(options) => return storm::run(&options),
        Role::Round(options) => {
            return Ok(if storm::round::run(&options)? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Role::Points { operation } => return storm::walk(operation),
        Role::Walk(options) => return storm::points::run(&options),
        Role::Serve(options) => served::run(&options)?,
        Role::First { role } => return storm::enclosed::be_the_first(&role),
        Role::Maker { data, seed } => maker::live(&data, seed)?,
        Role::Visitor { data, words } => visitor::read_back(&data, &words)?,
        Role::Stopper { data } => visitor::stop_all(&data)?,
        Role::Nursery => pinfold_keeper::nursery::run()?,
    }
    Ok(ExitCode::SUCCESS)
}
