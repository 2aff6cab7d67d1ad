//! Runs on the machine whose power is cut: starts a server on what the disk still has, verifies it against the
//! ledger of what was acknowledged before, and puts load on it until the next power cut. The host reads what is
//! printed.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

mod acknowledged;
mod client;
mod ledger;
mod server;
mod verifier;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use pinfold_checker::{Api, Deadline};

use acknowledged::Acknowledged;
use client::Client;
use ledger::{Entry, Ledger};
use server::Server;
use verifier::Verifier;

#[derive(Parser)]
struct Arguments {
    /// The program under test
    #[arg(long)]
    pinfold: PathBuf,
    /// Its data directory, on the disk that loses unsynced writes
    #[arg(long)]
    data: PathBuf,
    /// Configuration file
    #[arg(long)]
    config: PathBuf,
    /// The ledger's device, which loses nothing
    #[arg(long)]
    ledger: PathBuf,
    #[arg(long)]
    seed: u64,
    /// Shut down cleanly after the verification
    #[arg(long)]
    last: bool,
}

const CLIENTS: u64 = 2;
/// The power is cut long before this.
const LONGEST_LOAD: Duration = Duration::from_secs(300);

fn main() {
    match run(&Arguments::parse()) {
        Ok(violations) => violations.iter().for_each(|text| println!("power: broken {text}")),
        Err(error) => println!("power: broken {error:#}"),
    }
}

/// Returns the violations.
fn run(arguments: &Arguments) -> Result<Vec<String>> {
    let (ledger, entries) = Ledger::open(&arguments.ledger)?;
    ledger.append(&Entry::Started { boot_id: new_boot_id(&entries)? })?;
    println!("power: started");
    let server = Server::start(arguments)?;
    println!("power: serving");
    let mut verifier = Verifier::of(&arguments.data, Acknowledged::from_entries(&entries, arguments.seed))?;
    let violations = verifier.all(&server);
    if !violations.is_empty() {
        return Ok([violations, server.log_tail()].concat());
    }
    ledger.append(&Entry::Verified)?;
    println!("power: verified {verifier}");
    if arguments.last {
        let violations = verifier.after(server)?;
        if violations.is_empty() {
            println!("power: done");
        }
        return Ok(violations);
    }
    load(&server.api, &ledger, arguments.seed)?;
    Ok(Vec::new())
}

/// The boot id, which must be new.
fn new_boot_id(entries: &[Entry]) -> Result<String> {
    let own = fs::read_to_string("/proc/sys/kernel/random/boot_id").context("could not read the boot id")?;
    let is_known = entries.iter().any(|entry| matches!(entry, Entry::Started { boot_id } if *boot_id == own));
    ensure!(!is_known, "this machine was not rebooted");
    Ok(own)
}

/// Runs all clients until the power is cut.
fn load(api: &Api, ledger: &Ledger, seed: u64) -> Result<()> {
    let deadline = Deadline::after(LONGEST_LOAD);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || Client::new(api, ledger, number, seed).work(deadline)))
            .collect();
        println!("power: load");
        clients.into_iter().try_for_each(|client| client.join().ok().context("a client panicked")?)
    })
}
