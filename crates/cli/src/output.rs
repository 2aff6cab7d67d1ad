//! Where the output of an execution goes: to this terminal, or into a JSON document.

use std::io::{self, Write};

use pinfold_api::OutputEvent;

use crate::failure::say;
use crate::json_output::bytes_of;

/// Prints output at once, or buffers it for a JSON document at the end.
pub(crate) enum Sink {
    Terminal,
    Buffered { stdout: Vec<u8>, stderr: Vec<u8>, lost_bytes: u64 },
}

impl Sink {
    pub(crate) fn of(json: bool) -> Self {
        if json {
            Self::Buffered { stdout: Vec::new(), stderr: Vec::new(), lost_bytes: 0 }
        } else {
            Self::Terminal
        }
    }

    /// Output is not escaped: the command has been given this terminal.
    pub(crate) fn write(&mut self, event: OutputEvent) -> anyhow::Result<()> {
        match (self, event) {
            (Self::Terminal, OutputEvent::Stdout { text, base64, .. }) => {
                write_through(&mut io::stdout(), &bytes_of(text, base64)?)?;
            }
            (Self::Terminal, OutputEvent::Stderr { text, base64, .. }) => {
                write_through(&mut io::stderr(), &bytes_of(text, base64)?)?;
            }
            (Self::Terminal, OutputEvent::Gap { bytes, .. }) => {
                say(&format!("{bytes} bytes of output were dropped"));
            }
            (Self::Buffered { stdout, .. }, OutputEvent::Stdout { text, base64, .. }) => {
                stdout.extend(bytes_of(text, base64)?);
            }
            (Self::Buffered { stderr, .. }, OutputEvent::Stderr { text, base64, .. }) => {
                stderr.extend(bytes_of(text, base64)?);
            }
            (Self::Buffered { lost_bytes, .. }, OutputEvent::Gap { bytes, .. }) => *lost_bytes += bytes,
            (_, OutputEvent::Exit { .. } | OutputEvent::Error { .. }) => {}
        }
        Ok(())
    }
}

fn write_through(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}
