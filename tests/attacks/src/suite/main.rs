//! Hostile programs in real sandboxes. Each entry of the table is tried twice: with the targeted guard disabled,
//! where it must succeed, and on a real sandbox, where it must fail and where host, neighbour and keeper must be
//! unharmed. Run by `cargo xtask attacks`; words after `--` select entries by name.

#![allow(clippy::print_stdout, reason = "prints its table")]

mod entry;
mod fixture;
mod host_targets;
mod leftovers;
mod posture;
mod report;
mod run;
mod scenarios;
mod table;
mod unprivileged_user;

use std::process::ExitCode;
use std::sync::Arc;

use host_targets::HostTargets;

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if !rustix::process::getuid().is_root() && !unprivileged_user::is_active() {
        skip("attacks", "only root can set up what they must not reach");
        return ExitCode::SUCCESS;
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            println!("could not begin: {error}");
            return ExitCode::FAILURE;
        }
    };
    let targets = match HostTargets::open() {
        Ok(targets) => Arc::new(targets),
        Err(error) => {
            println!("could not set up what is outside: {error}");
            return ExitCode::FAILURE;
        }
    };
    if runtime.block_on(run::all(&targets, &wanted)) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Reports the suite as skipped, in the words of a test program.
fn skip(test: &str, reason: &str) {
    println!("skipped: {test}: {reason}");
    pinfold_test_support::skip(test, reason);
    println!("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}
