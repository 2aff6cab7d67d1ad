//! The commands that developers and CI run: `cargo xtask test`, `lint`, `tidy`, `attacks`, `v2`, `power`, `api`,
//! `prometheus`, `bench`, `sim`, `chaos` and `soak`.

#![allow(clippy::print_stdout, reason = "a program for a terminal: what it prints is what it is for")]

mod attacks;
mod bench;
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
    /// Check formatting and run clippy
    Lint,
    /// Check what the compiler does not: headers, sizes, names, documents, crate arrows
    Tidy,
    /// Try hostile programs in real sandboxes and print what held
    Attacks(attacks::Options),
    /// Run the tests of the Linux provider on an emulated machine that has nothing but cgroup v2
    V2,
    /// Cut the power of an emulated machine whose server is at work, start it again, and look for what is lost
    Power(test::PowerOptions),
    /// Ask a real server everything that its description of its API allows, and much that it does not
    Api(test::ApiOptions),
    /// Have Prometheus judge the rules in `deploy/`, and read a real server
    Prometheus,
    /// Run one benchmark and print its table
    Bench(bench::Options),
    /// Simulate a store, nodes, users and misfortunes, all decided by a seed
    Sim(sim::Options),
    /// Make things go wrong around a real server with real sandboxes, and look at what is left
    Chaos(chaos::Options),
    /// Watch a busy server for a long time, see whether anything grows, and draw it
    Soak(soak::Options),
}

fn main() -> anyhow::Result<ExitCode> {
    let succeeded = match Arguments::parse().task {
        Task::Test(options) => test::run(&options)?,
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
