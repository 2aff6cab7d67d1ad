//! `pinfold logs`: output of the commands in a sandbox and Pinfold's own entries, in one order, also after its end.

use std::process::ExitCode;

use pinfold_api::{LogEntry, LogPage, LogSource};
use pinfold_backoff::Backoff;
use pinfold_logs::{escape_bytes, escape_text};

use crate::GlobalOptions;
use crate::backend::Backend;
use crate::exit;
use crate::find::find;
use crate::follow::termination_signal;
use crate::json_output::{self, bytes_of};
use crate::stdout::{self, Reader};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Wait for new entries until the sandbox is gone
    #[arg(long, short)]
    follow: bool,
    /// Print output unchanged, including terminal control sequences
    #[arg(long, short)]
    raw: bool,
    /// Only output of commands, without Pinfold's own entries
    #[arg(long)]
    output_only: bool,
    /// The sandbox: its id, a unique prefix of the id, or its name
    sandbox: String,
}

/// Poll interval while following: short after new entries, growing while there are none.
const POLL_BACKOFF: Backoff = Backoff::from_ms(20, 200);

pub(crate) async fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(global).await?;
    let id = find(&backend, &options.sandbox).await?;
    let interrupted = termination_signal(false)?;
    // Ctrl-C ends this command only, not the sandbox.
    let code = tokio::select! {
        printed = print_log(&backend, &id, global, options) => printed.map(|()| ExitCode::SUCCESS),
        () = interrupted => Ok(ExitCode::from(exit::INTERRUPTED)),
    };
    backend.close().await?;
    code
}

async fn print_log(
    backend: &Backend,
    id: &str,
    global: &GlobalOptions,
    options: &Options,
) -> anyhow::Result<()> {
    if global.json && !options.follow {
        json_output::print(&read_all(backend, id, options).await?)
    } else {
        print_pages(backend, id, global, options).await
    }
}

async fn read_all(backend: &Backend, id: &str, options: &Options) -> anyhow::Result<LogPage> {
    let mut all = backend.logs(id, "").await?;
    while all.more {
        let page = backend.logs(id, &all.next).await?;
        all.entries.extend(page.entries);
        all = LogPage { entries: all.entries, ..page };
    }
    all.entries.retain(|entry| is_wanted(entry, options));
    Ok(all)
}

async fn print_pages(
    backend: &Backend,
    id: &str,
    global: &GlobalOptions,
    options: &Options,
) -> anyhow::Result<()> {
    let (mut after, mut backoff) = (String::new(), POLL_BACKOFF);
    let mut printer = Printer { at_line_start: true };
    loop {
        let page = backend.logs(id, &after).await?;
        for entry in page.entries.iter().filter(|entry| is_wanted(entry, options)) {
            let text = if global.json {
                format!("{}\n", serde_json::to_string(entry)?).into_bytes()
            } else {
                printer.next(entry, options.raw)?
            };
            if stdout::print(&text)? == Reader::Gone {
                return Ok(());
            }
        }
        after = page.next;
        if page.over || (!options.follow && !page.more) {
            return Ok(());
        }
        if !page.entries.is_empty() {
            backoff.reset();
        }
        if !page.more {
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }
}

fn is_wanted(entry: &LogEntry, options: &Options) -> bool {
    !options.output_only || entry.source != LogSource::Control
}

/// Formats entries; tracks whether the output is at the start of a line.
struct Printer {
    at_line_start: bool,
}

impl Printer {
    fn next(&mut self, entry: &LogEntry, raw: bool) -> anyhow::Result<Vec<u8>> {
        let bytes = bytes_of(entry.text.clone(), entry.base64.clone())?;
        let shown = if entry.source == LogSource::Control {
            let begin = if self.at_line_start { "" } else { "\n" };
            // One line, even if it quotes text with newlines.
            let text = escape_bytes(&bytes).replace('\n', " ");
            format!("{begin}-- {} {text}\n", entry.at).into_bytes()
        } else if raw {
            bytes
        } else {
            escape_output(&bytes).into_bytes()
        };
        if let Some(last) = shown.last() {
            self.at_line_start = *last == b'\n';
        }
        Ok(shown)
    }
}

fn escape_output(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => escape_text(text),
        Err(_) => escape_bytes(bytes),
    }
}
