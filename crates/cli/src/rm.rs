//! `pinfold rm`: deletes the records of sandboxes that are proven gone.

use std::process::ExitCode;

use serde_json::json;

use crate::GlobalOptions;
use crate::backend::Backend;
use crate::failure::Failure;
use crate::find::find;
use crate::json_output;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Sandboxes: ids, unique prefixes of ids, or names
    #[arg(required = true, value_name = "SANDBOX")]
    sandboxes: Vec<String>,
}

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(global).await?;
    let mut forgotten = Vec::new();
    for given in &options.sandboxes {
        let id = find(&backend, given).await?;
        // The engine would stop a running sandbox first. `rm` must not do that: the user may think it is already gone.
        if backend.sandbox(&id).await?.receipt.is_none() {
            return Err(Failure::StillThere { id }.into());
        }
        backend.forget(&id).await?;
        forgotten.push(id);
    }
    backend.close().await?;
    if global.json {
        json_output::print(&json!({ "forgotten": forgotten }))?;
    } else {
        forgotten.iter().for_each(|id| anstream::println!("{id} is deleted"));
    }
    Ok(ExitCode::SUCCESS)
}
