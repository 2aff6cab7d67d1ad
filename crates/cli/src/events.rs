//! `pinfold events`: prints the events of one sandbox, or of all.

use std::process::ExitCode;
use std::time::Duration;

use pinfold_api::Event;

use crate::GlobalOptions;
use crate::backend::Backend;
use crate::find::find;
use crate::json_output;
use crate::stdout::{self, Reader};
use crate::table::escape_control;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Wait for new events
    #[arg(long, short)]
    follow: bool,
    /// Print only events after this sequence number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
    /// Only events of this sandbox: its id, a unique prefix of the id, or its name
    sandbox: Option<String>,
}

const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(global).await?;
    let id = match &options.sandbox {
        Some(given) => Some(find(&backend, given).await?),
        None => None,
    };
    let (mut after, mut all) = (options.after, Vec::new());
    loop {
        let page = backend.events(id.as_deref(), after).await?;
        after = page.next;
        let mut lines = String::new();
        match (global.json, options.follow) {
            (true, false) => all.extend(page.events),
            (true, true) => {
                for event in &page.events {
                    lines += &format!("{}\n", serde_json::to_string(event)?);
                }
            }
            (false, _) => lines.extend(page.events.iter().map(format_event)),
        }
        if stdout::print(lines.as_bytes())? == Reader::Gone {
            break;
        }
        match (page.more, options.follow) {
            (true, _) => {}
            (false, true) => tokio::time::sleep(POLL_INTERVAL).await,
            (false, false) => break,
        }
    }
    backend.close().await?;
    if global.json && !options.follow {
        json_output::print(&all)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn format_event(event: &Event) -> String {
    let Event { seq, at, sandbox_id, event, details, .. } = event;
    let text = details.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    format!("{seq} {at} {sandbox_id} {event} {}\n", escape_control(&text.join(" ")))
}
