//! Stops every sandbox that has a label and waits until each is proven gone. A token and an
//! address are enough: sandboxes belong to the server, not to the process that asked for them.
//!
//! `PINFOLD_URL=http://127.0.0.1:7463 PINFOLD_TOKEN=… cargo run -p pinfold-examples --bin stop_from_anywhere -- job=7`

#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::env;

use anyhow::{Context, Result, bail};
use pinfold_client::{Client, Completion};

/// How long to wait for the proof that one sandbox is gone.
const STOP_WAIT_S: u64 = 60;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = env::var("PINFOLD_URL").context("PINFOLD_URL is the address of the server")?;
    let token = env::var("PINFOLD_TOKEN").context("PINFOLD_TOKEN is a token of the server")?;
    let label = env::args().nth(1).context("a label such as `job=7` is missing")?;
    let (key, value) = label.split_once('=').context("a label is written `key=value`")?;
    let client = Client::new(&url, &token)?;

    for sandbox in client.list("").await? {
        if sandbox.labels.get(key).is_none_or(|found| found != value) {
            continue;
        }
        // A repeated stop is not an error: another client may have stopped it meanwhile.
        match client.stop(&sandbox.id, None, STOP_WAIT_S).await? {
            Completion::Done(receipt) => println!("{} gone at {}", sandbox.id, receipt.verified_at),
            Completion::Pending(stop) => bail!("{} is still stopping: see {}", sandbox.id, stop.location),
        }
    }
    Ok(())
}
