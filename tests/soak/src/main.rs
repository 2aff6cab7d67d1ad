//! Short lives of real sandboxes, one after the other, on a server that forgets everything after minutes; and looks from
//! outside at whether anything of it grows: what is there at the end is compared with what was there at a mark.

#![allow(clippy::print_stdout, reason = "a program for a terminal: what it prints is what it is for")]

mod caller;
mod life;
mod load;
mod outside;
mod pacer;
mod plot;
mod processor;
mod quantity;
mod record;
mod server;
mod soak;
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(
    name = "cargo xtask soak",
    about = "Watch a busy server for a long time, and see whether anything grows"
)]
struct Options {
    /// The program under test
    #[arg(long, hide = true)]
    pinfold: PathBuf,
    /// How long all of it takes
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Sandboxes that are created, used and deleted in a second, if the machine has room for so many
    #[arg(long, default_value_t = 20.0)]
    rate: f64,
    /// What the end is compared with. By then everything must have been forgotten once
    #[arg(long, default_value_t = 5.0)]
    mark_minutes: f64,
    /// How long the server remembers anything
    #[arg(long, default_value_t = 120)]
    retention_seconds: u32,
    /// Of the machine's processors in percent: where it is busier, there are fewer lives in a second
    #[arg(long, default_value_t = 70.0)]
    cpu: f64,
    /// Where the plot goes; the numbers go beside it
    #[arg(long, default_value = "target/soak.svg")]
    out: PathBuf,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let nothing_grew = runtime.block_on(soak::run(&options))?;
    Ok(if nothing_grew { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
