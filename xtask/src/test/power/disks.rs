//! The machine's two disks: the one that loses what was not flushed when the power is cut, and the one for the ledger,
//! which loses nothing.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::writes::{self, Left};
use crate::test::machine::said;

const SIZE: &str = "768M";
const LEDGER_BYTES: u64 = 16 << 20;

pub(super) struct Disks {
    /// As it was when the machine was started last.
    before: PathBuf,
    /// As the machine has it.
    now: PathBuf,
    /// What the machine has written to it.
    log: PathBuf,
    ledger: PathBuf,
}

impl Disks {
    /// With nothing on them.
    pub(super) fn make(place: &Path) -> Result<Self> {
        let [before, now, log, ledger] =
            ["disk", "disk.now", "disk.log", "ledger"].map(|name| place.join(name));
        for file in [&before, &ledger] {
            File::create(file).with_context(|| format!("could not make `{}`", file.display()))?;
        }
        File::options().write(true).open(&ledger)?.set_len(LEDGER_BYTES)?;
        let options = ["-q", "-F", "-t", "ext4", "-m", "0", "-E", "lazy_itable_init=1,nodiscard"];
        said("mke2fs", &[&options[..], &[&before.to_string_lossy(), SIZE]].concat(), place)?;
        Ok(Self { before, now, log, ledger })
    }

    /// For a machine that is started now, as its emulator takes them. Nothing waits for this host's own disk.
    pub(super) fn plug_in(&self) -> Result<Vec<String>> {
        let (before, now) = (self.before.to_string_lossy(), self.now.to_string_lossy());
        said("cp", &["--sparse=always", &before, &now], Path::new("/"))?;
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

    /// After the machine has gone: the disk has what was flushed, and of the rest what chance says.
    pub(super) fn lose(&self, rng: &mut fastrand::Rng) -> Result<Left> {
        let log = fs::read(&self.log).context("could not read what was written")?;
        let left = writes::left(&log, rng);
        let disk = File::options().write(true).open(&self.before).context("could not open the disk")?;
        for write in &left.writes {
            disk.write_all_at(&log[write.data.clone()], write.to).context("could not write the disk")?;
        }
        Ok(left)
    }

    /// How many notes the ledger has.
    pub(super) fn notes(&self) -> Result<usize> {
        let ledger = fs::read(&self.ledger).context("could not read the ledger")?;
        let written = ledger.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(written.iter().filter(|byte| **byte == b'\n').count())
    }

    pub(super) fn remove(self) {
        // What is left behind is files under target/ that the next run replaces.
        for file in [self.before, self.now, self.log, self.ledger] {
            let _ = fs::remove_file(file);
        }
    }
}
