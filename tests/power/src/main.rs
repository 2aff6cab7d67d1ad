//! What runs on a machine whose power is cut: a server is started on what is left on its disk, judged by the ledger of
//! what was acknowledged before, and put to work until the power is cut again. The host reads what is printed.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

mod acknowledged;
mod client;
mod judge;
mod ledger;
mod server;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use pinfold_checker::{Api, Patience};

use acknowledged::Acknowledged;
use client::Client;
use judge::Judge;
use ledger::{Ledger, Note};
use server::Server;

#[derive(Parser)]
struct Arguments {
    /// The program under test
    #[arg(long)]
    pinfold: PathBuf,
    /// Its data directory, on the disk that loses what was not synced
    #[arg(long)]
    data: PathBuf,
    /// What is decided otherwise than is built in
    #[arg(long)]
    config: PathBuf,
    /// The device that loses nothing
    #[arg(long)]
    ledger: PathBuf,
    #[arg(long)]
    seed: u64,
    /// End everything in order after the judgement
    #[arg(long)]
    last: bool,
}

const CLIENTS: u64 = 2;
/// The power is cut long before.
const LONGEST_LOAD: Duration = Duration::from_secs(300);

fn main() {
    match run(&Arguments::parse()) {
        Ok(complaints) => complaints.iter().for_each(|text| println!("power: broken {text}")),
        Err(error) => println!("power: broken {error:#}"),
    }
}

/// What does not hold.
fn run(arguments: &Arguments) -> Result<Vec<String>> {
    let (ledger, notes) = Ledger::open(&arguments.ledger)?;
    ledger.note(&Note::Started { boot_id: new_boot_id(&notes)? })?;
    println!("power: started");
    let server = Server::start(arguments)?;
    println!("power: serving");
    let mut judge = Judge::of(&arguments.data, Acknowledged::by(&notes, arguments.seed))?;
    let complaints = judge.all(&server);
    if !complaints.is_empty() {
        return Ok([complaints, server.last_words()].concat());
    }
    ledger.note(&Note::Judged)?;
    println!("power: judged {judge}");
    if arguments.last {
        let complaints = judge.after(server)?;
        if complaints.is_empty() {
            println!("power: done");
        }
        return Ok(complaints);
    }
    load(&server.api, &ledger, arguments.seed)?;
    Ok(Vec::new())
}

/// The kernel's name for this start, which it never had before.
fn new_boot_id(notes: &[Note]) -> Result<String> {
    let own = fs::read_to_string("/proc/sys/kernel/random/boot_id").context("this start has no name")?;
    let is_known = notes.iter().any(|note| matches!(note, Note::Started { boot_id } if *boot_id == own));
    ensure!(!is_known, "this machine has not started again");
    Ok(own)
}

/// Everybody at work until there is no more power.
fn load(api: &Api, ledger: &Ledger, seed: u64) -> Result<()> {
    let patience = Patience::of(LONGEST_LOAD);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || Client::new(api, ledger, number, seed).work(patience)))
            .collect();
        println!("power: load");
        clients.into_iter().try_for_each(|client| client.join().ok().context("a client panicked")?)
    })
}
