//! What was acknowledged, and what was about to be requested, on a device that loses nothing: an entry is durable
//! as soon as it is written, also for a host that cuts the power.

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
pub(crate) enum Entry {
    /// The machine started, with this boot id.
    Started {
        boot_id: String,
    },
    /// Everything before this entry was verified.
    Verified,
    /// A create request that is about to be sent.
    Requested {
        key: String,
        of: RequestKind,
        body: Value,
    },
    Created {
        key: String,
        id: String,
        is_ready: bool,
    },
    Ran {
        id: String,
        sandbox: String,
        says: String,
        exits_with: i64,
        /// False: the response came before the execution ended.
        has_ended: bool,
        exit_code: Option<i64>,
    },
    /// An artifact that was kept.
    Kept {
        execution: String,
        sandbox: String,
        name: String,
        content: String,
    },
    /// A delete request that is about to be sent.
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
pub(crate) enum RequestKind {
    Sandbox,
    AgentRun,
}

impl RequestKind {
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
    /// Opens the device and reads all entries.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<Entry>)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(i32::try_from(OFlags::DSYNC.bits())?);
        let device = options.open(path).with_context(|| format!("could not open `{}`", path.display()))?;
        let text = read_written(&device).context("could not read the ledger")?;
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let lines = text[..end].split_inclusive(|byte| *byte == b'\n');
        let entries = lines.map(serde_json::from_slice).collect::<Result<_, _>>();
        let entries = entries.context("an entry of the ledger cannot be read")?;
        // A truncated entry was never acted on.
        device.write_all_at(&vec![0; text.len() - end], end as u64).context("could not write the ledger")?;
        Ok((Self { device, end: Mutex::new(end as u64) }, entries))
    }

    pub(crate) fn append(&self, entry: &Entry) -> Result<()> {
        let mut line = serde_json::to_vec(entry).context("an entry cannot be serialized")?;
        ensure!(!line.contains(&0), "an entry contains a zero byte");
        line.push(b'\n');
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        self.device.write_all_at(&line, *end).context("could not write the ledger")?;
        *end += line.len() as u64;
        Ok(())
    }
}

/// Reads up to the first zero byte, or to the end.
fn read_written(device: &File) -> io::Result<Vec<u8>> {
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

    fn ended(id: &str) -> Entry {
        Entry::Ended { id: id.into(), receipt: Value::Null }
    }

    #[test]
    fn entries_are_read_back_in_order() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let (ledger, before) = Ledger::open(file.path()).unwrap();
        let entries: Vec<_> = (0..2_000).map(|number| ended(&format!("sbx_{number}"))).collect();

        entries.iter().for_each(|entry| ledger.append(entry).unwrap());

        assert_eq!(before, []);
        assert_eq!(Ledger::open(file.path()).unwrap().1, entries);
    }

    #[test]
    fn a_truncated_entry_is_dropped_and_overwritten() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (ledger, _) = Ledger::open(file.path()).unwrap();
        ledger.append(&ended("sbx_1")).unwrap();
        let mut text = fs::read(file.path()).unwrap();
        text.extend(br#"{"ended":{"id":"sbx_2","receipt":{"and":"so on and on"#);
        text.extend([0; 512]);
        fs::write(file.path(), text).unwrap();

        let (ledger, entries) = Ledger::open(file.path()).unwrap();
        ledger.append(&Entry::Verified).unwrap();

        assert_eq!(entries, [ended("sbx_1")]);
        assert_eq!(Ledger::open(file.path()).unwrap().1, [ended("sbx_1"), Entry::Verified]);
    }
}
