//! `pinfold shell`: a shell in a sandbox, at the terminal here. It is `exec -it` with the best shell there is.

use std::process::ExitCode;

use crate::Place;
use crate::exec;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The sandbox: its id, a beginning of it that is no other's, or its name
    sandbox: String,
}

const BEST_SHELL: &str = "if command -v bash > /dev/null; then exec bash; else exec sh; fi";

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    let command = ["sh", "-c", BEST_SHELL].map(str::to_owned).to_vec();
    // What is typed and drawn goes through the terminal here, so its kind is the one that counts.
    let kind = std::env::var("TERM").ok().map(|kind| ("TERM".to_owned(), kind));
    let exec = exec::Options::at_terminal(options.sandbox.clone(), command, kind.into_iter().collect());
    exec::run(place, &exec).await
}
