//! `pinfold shell`: opens a shell in a sandbox: `exec -it` with bash, or sh if there is no bash.

use std::process::ExitCode;

use crate::GlobalOptions;
use crate::exec;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The sandbox: its id, a unique prefix of the id, or its name
    sandbox: String,
}

const BASH_OR_SH: &str = "if command -v bash > /dev/null; then exec bash; else exec sh; fi";

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let command = ["sh", "-c", BASH_OR_SH].map(str::to_owned).to_vec();
    let exec = exec::Options::at_terminal(options.sandbox.clone(), command);
    exec::run(global, &exec).await
}
