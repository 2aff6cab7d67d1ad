//! Soak test: creates, uses and deletes real sandboxes on a server with minutes of retention, and measures from
//! outside whether anything grows between a baseline and the end.

#![allow(clippy::print_stdout, reason = "a program for a terminal: what it prints is what it is for")]

mod connection;
mod cpu_time;
mod cycle;
mod load;
mod pacer;
mod plot;
mod quantity;
mod record;
mod server;
mod server_resources;
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
    /// Duration of the whole run
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Sandboxes created, used and deleted per second, if the machine has room for so many
    #[arg(long, default_value_t = 20.0)]
    rate: f64,
    /// When the baseline is taken. By then retention must have run once
    #[arg(long, default_value_t = 5.0)]
    baseline_minutes: f64,
    /// The server's retention
    #[arg(long, default_value_t = 120)]
    retention_seconds: u32,
    /// Target CPU load of the machine in percent: above it the rate goes down
    #[arg(long, default_value_t = 70.0)]
    cpu: f64,
    /// Path of the plot; the numbers go beside it
    #[arg(long, default_value = "target/soak.svg")]
    out: PathBuf,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let nothing_grew = runtime.block_on(soak::run(&options))?;
    Ok(if nothing_grew { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
