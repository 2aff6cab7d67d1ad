//! Creates a sandbox, runs one command in it, stops it and prints the receipt.
//!
//! `PINFOLD_URL=http://127.0.0.1:7463 PINFOLD_TOKEN=… cargo run -p pinfold-examples --bin run_command -- uname -a`

#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::env;

use anyhow::{Context, Result, bail};
use pinfold_api::{CreateSandbox, ExecRequest};
use pinfold_client::{Client, Completion};

/// How long to wait for the proof that the sandbox is gone.
const STOP_WAIT_S: u64 = 60;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = env::var("PINFOLD_URL").context("PINFOLD_URL is the address of the server")?;
    let token = env::var("PINFOLD_TOKEN").context("PINFOLD_TOKEN is a token of the server")?;
    let client = Client::new(&url, &token)?;
    let command: Vec<String> = env::args().skip(1).collect();

    let sandbox = client.create(&CreateSandbox::default()).await?;
    let executed = client.exec(&sandbox.id, &ExecRequest::of(command)).await;
    // Stop first and judge later, so that a failed command leaves no sandbox behind.
    let stopped = client.stop(&sandbox.id, None, STOP_WAIT_S).await?;

    match stopped {
        Completion::Done(receipt) => println!("{}", serde_json::to_string_pretty(&receipt)?),
        Completion::Pending(stop) => bail!("{} is still stopping: see {}", sandbox.id, stop.location),
    }
    match executed? {
        Completion::Done(result) if result.exit_code == Some(0) => {
            print!("{}", result.output.stdout.unwrap_or_default());
            Ok(())
        }
        Completion::Done(result) => {
            bail!("the command failed: {:?}\n{}", result.cause, result.output.stderr.unwrap_or_default())
        }
        Completion::Pending(execution) => bail!("execution {} did not end", execution.execution_id),
    }
}
