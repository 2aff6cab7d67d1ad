//! `pinfold stats`: counts and metrics of all sandboxes, or the resource usage of one.

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use crate::GlobalOptions;
use crate::backend::Backend;
use crate::find::find;
use crate::json_output;
use crate::named_values::{OrderedValue, rows};
use crate::table::format_table;
use crate::units::milliseconds;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Show the resource usage of this sandbox: its id, a unique prefix of the id, or its name
    sandbox: Option<String>,
    /// Show rates, latencies and results by agent type
    #[arg(long, conflicts_with = "sandbox")]
    metrics: bool,
    /// Time window of the metrics, from a minute to a week: seconds, or 90s, 5m, 1h, 7d
    #[arg(long, value_name = "TIME", value_parser = milliseconds, allow_hyphen_values = true, default_value = "1h", requires = "metrics")]
    window: u64,
}

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(global).await?;
    match &options.sandbox {
        Some(given) => {
            let id = find(&backend, given).await?;
            show(global, &backend.resources(&id).await?)?;
        }
        None if options.metrics => {
            show(global, &backend.metrics(Duration::from_millis(options.window)).await?)?;
        }
        None => show(global, &backend.stats().await?)?,
    }
    backend.close().await?;
    Ok(ExitCode::SUCCESS)
}

/// Prints each known value with its name and unit, in the order of the API.
fn show(global: &GlobalOptions, values: &impl Serialize) -> anyhow::Result<()> {
    if global.json {
        return json_output::print(values);
    }
    // From text and not from a `Value`, which would sort the names.
    let ordered: OrderedValue = serde_json::from_str(&serde_json::to_string(values)?)?;
    anstream::print!("{}", format_table(&rows("", &ordered)));
    Ok(())
}
