//! The commands that developers and CI run: `cargo xtask test`, `lint`, `tidy`, `attacks`, `v2`, `power`, `api`,
//! `prometheus`, `bench`, `sim`, `chaos` and `soak`.

#![allow(clippy::print_stdout, reason = "a program for a terminal: what it prints is what it is for")]

mod attacks;
mod bench;
mod builds;
mod cargo;
mod chaos;
mod lint;
mod sim;
mod soak;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", about = "Builds, checks and measures this repository")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the tests and count them
    Test(test::Options),
    /// Run one stage of a test run
    #[command(hide = true)]
    Stage(test::StageOptions),
    /// Check formatting and run clippy
    Lint,
    /// Check what the compiler does not: headers, sizes, names, documents, crate arrows
    Tidy,
    /// Run hostile programs in real sandboxes and print which guards held
    Attacks(attacks::Options),
    /// Run the tests of the Linux provider on an emulated machine that has nothing but cgroup v2
    V2,
    /// Cut the power of an emulated machine with a server under load, restart it, and check for lost data
    Power(test::PowerOptions),
    /// Test a real server against its OpenAPI description, with valid and invalid requests
    Api(test::ApiOptions),
    /// Check the rules in `deploy/` with Prometheus, and scrape a real server
    Prometheus,
    /// Run one benchmark and print its table
    Bench(bench::Options),
    /// Simulate a store, nodes, users and faults, all decided by a seed
    Sim(sim::Options),
    /// Inject faults around a real server with real sandboxes, and check what is left
    Chaos(chaos::Options),
    /// Run a server under load for a long time, and plot whether anything grows
    Soak(soak::Options),
}

fn main() -> anyhow::Result<ExitCode> {
    let succeeded = match Arguments::parse().task {
        Task::Test(options) => test::run(&options)?,
        Task::Stage(options) => test::run_stage(&options)?,
        Task::Lint => lint::run()?,
        Task::Tidy => tidy::run()?,
        Task::Attacks(options) => attacks::run(&options)?,
        Task::V2 => test::run_v2()?,
        Task::Power(options) => test::run_power(&options)?,
        Task::Api(options) => test::run_api(&options)?,
        Task::Prometheus => test::run_prometheus()?,
        Task::Bench(options) => bench::run(&options)?,
        Task::Sim(options) => sim::run(&options)?,
        Task::Chaos(options) => chaos::run(&options)?,
        Task::Soak(options) => soak::run(&options)?,
    };
    Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
