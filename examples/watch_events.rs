//! Prints the events of a sandbox as they happen, until it is proven gone.
//!
//! `PINFOLD_URL=http://127.0.0.1:7463 PINFOLD_TOKEN=… cargo run -p pinfold-examples --bin watch_events -- SANDBOX`

#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::env;
use std::time::Duration;

use anyhow::{Context, Result};
use pinfold_client::Client;

const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = env::var("PINFOLD_URL").context("PINFOLD_URL is the address of the server")?;
    let token = env::var("PINFOLD_TOKEN").context("PINFOLD_TOKEN is a token of the server")?;
    let id = env::args().nth(1).context("the id of a sandbox is missing")?;
    let client = Client::new(&url, &token)?;

    // The sequence number of the last event seen: after a lost connection, go on from there.
    let mut after = 0;
    loop {
        // Before the events are read, so that the last of them is among those.
        let is_gone = client.sandbox(&id).await?.receipt.is_some();
        let page = client.events(Some(&id), after).await?;
        for event in &page.events {
            println!("{} {}", event.at, event.event);
        }
        after = page.next;
        if is_gone && !page.more {
            return Ok(());
        }
        if !page.more {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
