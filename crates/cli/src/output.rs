//! What a command in a sandbox writes, on its way to whoever waits for it.

use std::io::{self, Write};

use pinfold_api::OutputEvent;

use crate::documents::bytes_of;
use crate::failure::say;

/// Passed on at once, or kept for a document at the end.
pub(crate) enum Sink {
    Terminal,
    Kept { stdout: Vec<u8>, stderr: Vec<u8>, lost_bytes: u64 },
}

impl Sink {
    pub(crate) fn of(json: bool) -> Self {
        if json {
            Self::Kept { stdout: Vec::new(), stderr: Vec::new(), lost_bytes: 0 }
        } else {
            Self::Terminal
        }
    }

    /// As the command wrote it: it is the command's own terminal as much as ours.
    pub(crate) fn take(&mut self, event: OutputEvent) -> anyhow::Result<()> {
        match (self, event) {
            (Self::Terminal, OutputEvent::Stdout { text, base64, .. }) => {
                pass_on(&mut io::stdout(), &bytes_of(text, base64)?)?;
            }
            (Self::Terminal, OutputEvent::Stderr { text, base64, .. }) => {
                pass_on(&mut io::stderr(), &bytes_of(text, base64)?)?;
            }
            (Self::Terminal, OutputEvent::Gap { bytes, .. }) => {
                say(&format!("{bytes} bytes of output were not kept"));
            }
            (Self::Kept { stdout, .. }, OutputEvent::Stdout { text, base64, .. }) => {
                stdout.extend(bytes_of(text, base64)?);
            }
            (Self::Kept { stderr, .. }, OutputEvent::Stderr { text, base64, .. }) => {
                stderr.extend(bytes_of(text, base64)?);
            }
            (Self::Kept { lost_bytes, .. }, OutputEvent::Gap { bytes, .. }) => *lost_bytes += bytes,
            (_, OutputEvent::Exit { .. } | OutputEvent::Error { .. }) => {}
        }
        Ok(())
    }
}

fn pass_on(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}
