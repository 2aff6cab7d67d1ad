//! The machine's two disks: one that loses unflushed writes when the power is cut, and one for the ledger that
//! loses nothing.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::writes::{self, AfterPowerCut};
use crate::test::machine::output_of;

const SIZE: &str = "768M";
const LEDGER_BYTES: u64 = 16 << 20;

pub(super) struct Disks {
    /// Its content at the machine's last start.
    before: PathBuf,
    /// The disk that the machine uses.
    now: PathBuf,
    /// The log of the machine's writes.
    log: PathBuf,
    ledger: PathBuf,
}

impl Disks {
    /// Creates empty disks.
    pub(super) fn make(place: &Path) -> Result<Self> {
        let [before, now, log, ledger] =
            ["disk", "disk.now", "disk.log", "ledger"].map(|name| place.join(name));
        for file in [&before, &ledger] {
            File::create(file).with_context(|| format!("could not make `{}`", file.display()))?;
        }
        File::options().write(true).open(&ledger)?.set_len(LEDGER_BYTES)?;
        let options = ["-q", "-F", "-t", "ext4", "-m", "0", "-E", "lazy_itable_init=1,nodiscard"];
        output_of("mke2fs", &[&options[..], &[&before.to_string_lossy(), SIZE]].concat(), place)?;
        Ok(Self { before, now, log, ledger })
    }

    /// Drive options for the emulator. No write waits for this host's own disk.
    pub(super) fn drives(&self) -> Result<Vec<String>> {
        let (before, now) = (self.before.to_string_lossy(), self.now.to_string_lossy());
        output_of("cp", &["--sparse=always", &before, &now], Path::new("/"))?;
        File::create(&self.log).with_context(|| format!("could not make `{}`", self.log.display()))?;
        Ok(vec![
            format!(
                "driver=blklogwrites,file.driver=file,file.filename={now},file.cache.no-flush=on,\
                 log.driver=file,log.filename={},log.cache.no-flush=on",
                self.log.display()
            ),
            format!("file={},format=raw,cache=unsafe", self.ledger.display()),
        ])
    }

    /// After the machine was killed: leaves on the disk what was flushed, and a random part of the rest.
    pub(super) fn apply_power_cut(&self, rng: &mut fastrand::Rng) -> Result<AfterPowerCut> {
        let log = fs::read(&self.log).context("could not read what was written")?;
        let left = writes::after_power_cut(&log, rng);
        let disk = File::options().write(true).open(&self.before).context("could not open the disk")?;
        for write in &left.writes {
            disk.write_all_at(&log[write.data.clone()], write.to).context("could not write the disk")?;
        }
        Ok(left)
    }

    /// Number of entries in the ledger.
    pub(super) fn entries(&self) -> Result<usize> {
        let ledger = fs::read(&self.ledger).context("could not read the ledger")?;
        let written = ledger.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(written.iter().filter(|byte| **byte == b'\n').count())
    }

    pub(super) fn remove(self) {
        // The next run replaces what is left under target/.
        for file in [self.before, self.now, self.log, self.ledger] {
            let _ = fs::remove_file(file);
        }
    }
}
