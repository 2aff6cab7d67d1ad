//! What was acknowledged, and what was about to be asked, on a device of its own that loses nothing: a note is there as
//! soon as it is written, also for a host that has pulled the plug.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Note {
    /// The machine, under this name.
    Started {
        boot_id: String,
    },
    /// All that stands before this was found to hold.
    Judged,
    /// About to be asked for.
    Wished {
        key: String,
        of: Wished,
        what: Value,
    },
    Made {
        key: String,
        id: String,
        is_ready: bool,
    },
    Ran {
        id: String,
        sandbox: String,
        says: String,
        exits_with: i64,
        /// False: it was accepted, and nothing was said of its end.
        has_ended: bool,
        exit_code: Option<i64>,
    },
    /// What an execution left to be kept.
    Kept {
        execution: String,
        sandbox: String,
        name: String,
        content: String,
    },
    /// About to be asked to end.
    Ending {
        id: String,
        forget: bool,
    },
    Ended {
        id: String,
        receipt: Value,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Wished {
    Sandbox,
    AgentRun,
}

impl Wished {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Sandbox => "/api/sandbox",
            Self::AgentRun => "/api/agents/execute",
        }
    }
}

pub(crate) struct Ledger {
    device: File,
    end: Mutex<u64>,
}

const PIECE: usize = 1 << 16;

impl Ledger {
    /// With all notes that are in it.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<Note>)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(i32::try_from(OFlags::DSYNC.bits())?);
        let device = options.open(path).with_context(|| format!("could not open `{}`", path.display()))?;
        let text = written(&device).context("could not read the ledger")?;
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let lines = text[..end].split_inclusive(|byte| *byte == b'\n');
        let notes = lines.map(serde_json::from_slice).collect::<Result<_, _>>();
        let notes = notes.context("a note in the ledger cannot be read")?;
        // A note that was cut short was never answered for.
        device.write_all_at(&vec![0; text.len() - end], end as u64).context("could not write the ledger")?;
        Ok((Self { device, end: Mutex::new(end as u64) }, notes))
    }

    pub(crate) fn note(&self, note: &Note) -> Result<()> {
        let mut line = serde_json::to_vec(note).context("a note cannot be written")?;
        ensure!(!line.contains(&0), "a note with an end in it");
        line.push(b'\n');
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        self.device.write_all_at(&line, *end).context("could not write the ledger")?;
        *end += line.len() as u64;
        Ok(())
    }
}

/// Up to the first zero, or to the end.
fn written(device: &File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        let mut piece = vec![0; PIECE];
        match device.read_at(&mut piece, text.len() as u64) {
            Ok(length) => {
                let used = piece[..length].iter().position(|byte| *byte == 0).unwrap_or(length);
                text.extend(&piece[..used]);
                if used < length || length == 0 {
                    return Ok(text);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn ended(id: &str) -> Note {
        Note::Ended { id: id.into(), receipt: Value::Null }
    }

    #[test]
    fn notes_are_read_again_in_their_order() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let (ledger, before) = Ledger::open(file.path()).unwrap();
        let notes: Vec<_> = (0..2_000).map(|number| ended(&format!("sbx_{number}"))).collect();

        notes.iter().for_each(|note| ledger.note(note).unwrap());

        assert_eq!(before, []);
        assert_eq!(Ledger::open(file.path()).unwrap().1, notes);
    }

    #[test]
    fn a_note_that_was_cut_short_is_none_and_leaves_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (ledger, _) = Ledger::open(file.path()).unwrap();
        ledger.note(&ended("sbx_1")).unwrap();
        let mut text = fs::read(file.path()).unwrap();
        text.extend(br#"{"ended":{"id":"sbx_2","receipt":{"and":"so on and on"#);
        text.extend([0; 512]);
        fs::write(file.path(), text).unwrap();

        let (ledger, notes) = Ledger::open(file.path()).unwrap();
        ledger.note(&Note::Judged).unwrap();

        assert_eq!(notes, [ended("sbx_1")]);
        assert_eq!(Ledger::open(file.path()).unwrap().1, [ended("sbx_1"), Note::Judged]);
    }
}
