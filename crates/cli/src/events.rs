//! `pinfold events`: what happened to one sandbox, or to all.

use std::process::ExitCode;
use std::time::Duration;

use pinfold_api::Event;

use crate::Place;
use crate::documents;
use crate::find::find;
use crate::plane::Plane;
use crate::stdout::{self, Reader};
use crate::table::harmless;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Wait for what comes next
    #[arg(long, short)]
    follow: bool,
    /// The number of the last event that was read
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
    /// Only of one sandbox: its id, a beginning of it that is no other's, or its name
    sandbox: Option<String>,
}

const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    let plane = Plane::open(place).await?;
    let id = match &options.sandbox {
        Some(given) => Some(find(&plane, given).await?),
        None => None,
    };
    let (mut after, mut all) = (options.after, Vec::new());
    loop {
        let page = plane.events(id.as_deref(), after).await?;
        after = page.next;
        let mut lines = String::new();
        match (place.json, options.follow) {
            (true, false) => all.extend(page.events),
            (true, true) => {
                for event in &page.events {
                    lines += &format!("{}\n", serde_json::to_string(event)?);
                }
            }
            (false, _) => lines.extend(page.events.iter().map(told)),
        }
        if stdout::print(lines.as_bytes())? == Reader::Gone {
            break;
        }
        match (page.more, options.follow) {
            (true, _) => {}
            (false, true) => tokio::time::sleep(LOOK_EVERY).await,
            (false, false) => break,
        }
    }
    plane.close().await?;
    if place.json && !options.follow {
        documents::print(&all)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn told(event: &Event) -> String {
    let Event { seq, at, sandbox_id, event, details, .. } = event;
    let said = details.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    format!("{seq} {at} {sandbox_id} {event} {}\n", harmless(&said.join(" ")))
}
