//! Ids of the host that stand for the ids of one sandbox: as root a range of its own for each, else the caller's.
//! A range is taken by a file that names its body, from its first instant on, and freed with it.

use std::fs;
use std::io;
use std::path::PathBuf;

use pinfold_keeper::wire::IdMap;
use rustix::process::{getgid, getuid};

use crate::places::Places;

/// Far from what distributions and directory services hand out.
const FIRST: u32 = 1_000_000_000;
const SIZE: u32 = 65_536;
const RANGES: u32 = 40_000;
/// Who root of an image is on this host's disk, as root: in a range that no sandbox has.
pub const FIRST_LAYER_ID: u32 = FIRST - SIZE;

#[derive(Debug, Clone)]
pub(crate) struct IdRanges {
    directory: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RangeError {
    #[error("all {RANGES} ranges of ids are taken")]
    NoneLeft,
    #[error("could not take a range of ids in `{}`: {source}", directory.display())]
    Take { directory: PathBuf, source: io::Error },
}

impl IdRanges {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The body's range; the same one if it has one already.
    pub(crate) fn take(&self, places: &Places) -> Result<IdMap, RangeError> {
        let name = places.name.as_str();
        if !getuid().is_root() {
            return Ok(IdMap { uid: getuid().as_raw(), gid: getgid().as_raw(), count: 1 });
        }
        let failed = |source| RangeError::Take { directory: self.directory.clone(), source };
        if let Some(known) = noted(places) {
            return Ok(range(known));
        }
        // A try that was cut short may have taken one and not come to note it.
        if places.holder().exists()
            && let Some(slot) = self.find(name).map_err(failed)?
        {
            fs::write(places.ids(), slot.to_string()).map_err(failed)?;
            return Ok(range(slot));
        }
        fs::write(places.holder(), name).map_err(failed)?;
        // Begins at a place of its own for each body, so that many at once seldom meet.
        let start = name.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        for step in 0..RANGES {
            let slot = (start.wrapping_add(step)) % RANGES;
            // Linked rather than made: it is there with its whole text, or not at all.
            match fs::hard_link(places.holder(), self.directory.join(slot.to_string())) {
                Ok(()) => {
                    fs::write(places.ids(), slot.to_string()).map_err(failed)?;
                    return Ok(range(slot));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(RangeError::NoneLeft)
    }

    /// Looks through all of them only where a crash came before the body's own note.
    pub(crate) fn free(&self, places: &Places) -> io::Result<()> {
        let slot = match noted(places) {
            Some(slot) => Some(slot),
            None => self.find(&places.name)?,
        };
        let Some(path) = slot.map(|slot| self.directory.join(slot.to_string())) else { return Ok(()) };
        match fs::read_to_string(&path) {
            Ok(holder) if holder == places.name => fs::remove_file(path),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// How many more bodies can have a range of their own. None: ids are not what runs out.
    pub(crate) fn left(&self) -> Option<u64> {
        if !getuid().is_root() {
            return None;
        }
        let taken = fs::read_dir(&self.directory).ok()?.count();
        Some(u64::from(RANGES).saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX)))
    }

    fn find(&self, name: &str) -> io::Result<Option<u32>> {
        let entries = match fs::read_dir(&self.directory) {
            // Somebody has removed all there was, and this is no reason to leave the rest of a body.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // One that was there a moment ago may be gone again.
            if fs::read_to_string(entry.path()).unwrap_or_default() == name {
                return Ok(entry.file_name().to_str().and_then(|slot| slot.parse().ok()));
            }
        }
        Ok(None)
    }
}

fn noted(places: &Places) -> Option<u32> {
    fs::read_to_string(places.ids()).ok()?.parse().ok()
}

fn range(slot: u32) -> IdMap {
    let first = FIRST + slot * SIZE;
    IdMap { uid: first, gid: first, count: SIZE }
}

#[cfg(test)]
mod tests {
    use pinfold_lifecycle::{Generation, SandboxId};
    use pinfold_provider::InstanceId;

    use super::*;
    use crate::places::{Grounds, make};

    fn taken(ranges: &IdRanges) -> Vec<String> {
        let entries = fs::read_dir(&ranges.directory).unwrap();
        entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
    }

    /// Only root has ranges to give.
    fn ground() -> Option<(tempfile::TempDir, IdRanges, Places)> {
        if !getuid().is_root() {
            return None;
        }
        let data = tempfile::tempdir().unwrap();
        let grounds = Grounds::on_disk(data.path()).unwrap();
        let places = grounds.of(InstanceId { sandbox: SandboxId(1), generation: Generation(1) });
        make(&places.control, 0o700).unwrap();
        Some((data, IdRanges::new(grounds.ids), places))
    }

    #[test]
    fn a_range_says_whose_it_is_and_is_freed_with_it() {
        let Some((_data, ranges, places)) = ground() else { return };

        ranges.take(&places).unwrap();

        assert_eq!(taken(&ranges), std::slice::from_ref(&places.name));
        ranges.free(&places).unwrap();
        assert_eq!(taken(&ranges), [] as [String; 0]);
    }

    #[test]
    fn a_try_that_was_cut_short_is_gone_on_with() {
        let Some((_data, ranges, places)) = ground() else { return };
        let first = ranges.take(&places).unwrap();
        fs::remove_file(places.ids()).unwrap();

        let again = ranges.take(&places).unwrap();

        assert_eq!((again, taken(&ranges).len()), (first, 1));
    }
}
