//! `pinfold logs`: what a sandbox and the control plane wrote, in one order, also after its end.

use std::process::ExitCode;
use std::time::Duration;

use pinfold_api::{LogEntry, LogPage, LogSource};
use pinfold_logs::{printable, printable_bytes};

use crate::Place;
use crate::documents::{self, bytes_of};
use crate::exit;
use crate::find::find;
use crate::following::asked_to_end;
use crate::plane::Plane;
use crate::stdout::{self, Reader};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Wait for what comes next, until the sandbox is gone
    #[arg(long, short)]
    follow: bool,
    /// Pass on what it wrote as it is, also what a terminal would obey
    #[arg(long, short)]
    raw: bool,
    /// Only what its commands wrote, not what Pinfold did
    #[arg(long)]
    output_only: bool,
    /// The sandbox: its id, a beginning of it that is no other's, or its name
    sandbox: String,
}

/// How soon is looked again: quickly after something came, and less and less while nothing does.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const SLOWEST_LOOK: Duration = Duration::from_millis(200);

pub(crate) async fn run(place: &Place, options: &Options) -> anyhow::Result<ExitCode> {
    let plane = Plane::open(place).await?;
    let id = find(&plane, &options.sandbox).await?;
    let interrupted = asked_to_end(false)?;
    // Who has seen enough ends this program, and nothing else.
    let code = tokio::select! {
        told = tell(&plane, &id, place, options) => told.map(|()| ExitCode::SUCCESS),
        () = interrupted => Ok(ExitCode::from(exit::INTERRUPTED)),
    };
    plane.close().await?;
    code
}

async fn tell(plane: &Plane, id: &str, place: &Place, options: &Options) -> anyhow::Result<()> {
    if place.json && !options.follow {
        documents::print(&whole(plane, id, options).await?)
    } else {
        pass_on(plane, id, place, options).await
    }
}

async fn whole(plane: &Plane, id: &str, options: &Options) -> anyhow::Result<LogPage> {
    let mut all = plane.logs(id, "").await?;
    while all.more {
        let page = plane.logs(id, &all.next).await?;
        all.entries.extend(page.entries);
        all = LogPage { entries: all.entries, ..page };
    }
    all.entries.retain(|entry| is_wanted(entry, options));
    Ok(all)
}

async fn pass_on(plane: &Plane, id: &str, place: &Place, options: &Options) -> anyhow::Result<()> {
    let (mut after, mut pause) = (String::new(), FIRST_LOOK);
    let mut page_of_people = Printed { at_line_start: true };
    loop {
        let page = plane.logs(id, &after).await?;
        for entry in page.entries.iter().filter(|entry| is_wanted(entry, options)) {
            let text = if place.json {
                format!("{}\n", serde_json::to_string(entry)?).into_bytes()
            } else {
                page_of_people.next(entry, options.raw)?
            };
            if stdout::print(&text)? == Reader::Gone {
                return Ok(());
            }
        }
        after = page.next;
        if page.over || (!options.follow && !page.more) {
            return Ok(());
        }
        pause = if page.entries.is_empty() { (pause * 2).min(SLOWEST_LOOK) } else { FIRST_LOOK };
        if !page.more {
            tokio::time::sleep(pause).await;
        }
    }
}

fn is_wanted(entry: &LogEntry, options: &Options) -> bool {
    !options.output_only || entry.source != LogSource::Control
}

/// What was printed so far.
struct Printed {
    at_line_start: bool,
}

impl Printed {
    fn next(&mut self, entry: &LogEntry, raw: bool) -> anyhow::Result<Vec<u8>> {
        let bytes = bytes_of(entry.text.clone(), entry.base64.clone())?;
        let shown = if entry.source == LogSource::Control {
            let begin = if self.at_line_start { "" } else { "\n" };
            // One line, whatever it quotes.
            let said = printable_bytes(&bytes).replace('\n', " ");
            format!("{begin}-- {} {said}\n", entry.at).into_bytes()
        } else if raw {
            bytes
        } else {
            safe(&bytes).into_bytes()
        };
        if let Some(last) = shown.last() {
            self.at_line_start = *last == b'\n';
        }
        Ok(shown)
    }
}

fn safe(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => printable(text),
        Err(_) => printable_bytes(bytes),
    }
}
