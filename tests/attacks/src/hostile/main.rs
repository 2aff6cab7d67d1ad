//! The program that an attacker runs inside a sandbox: one attempt by its name. Every target is harmless. Prints
//! what happened in one line; the exit code says whether the attempt succeeded.

#![allow(clippy::print_stdout, reason = "its verdict is read from its output")]

mod escape;
mod exhaust;
mod keeper;
mod kernel;
mod network;
mod secrets;
mod shared_files;
mod stay;
mod syscalls;
mod verdict;

use std::process::ExitCode;

use verdict::{Attempt, Verdict};

/// Exit codes that no attempt uses otherwise.
const HELD: u8 = 41;
const NOT_TRIED: u8 = 42;

const ATTEMPTS: &[&[(&str, Attempt)]] = &[
    syscalls::ATTEMPTS,
    escape::ATTEMPTS,
    exhaust::ATTEMPTS,
    keeper::ATTEMPTS,
    network::ATTEMPTS,
    secrets::ATTEMPTS,
    shared_files::ATTEMPTS,
    stay::ATTEMPTS,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("", String::as_str);
    let found = ATTEMPTS.iter().copied().flatten().find(|(known, _)| *known == name);
    let outcome = match found {
        Some((_, attempt)) => attempt(&arguments[1..]),
        None => Err(format!("there is no attempt `{name}`")),
    };
    match outcome {
        Ok(Verdict::Through(what)) => {
            println!("through: {what}");
            ExitCode::SUCCESS
        }
        Ok(Verdict::Held(why)) => {
            println!("held: {why}");
            ExitCode::from(HELD)
        }
        Err(why) => {
            println!("not tried: {why}");
            ExitCode::from(NOT_TRIED)
        }
    }
}
