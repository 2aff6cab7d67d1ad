//! Host uid and gid ranges of sandboxes: as root a range for each instance, else the caller's own ids. A range is
//! taken by a file that names its instance, from the moment it is created, and freed with it.

use std::fs;
use std::io;
use std::path::PathBuf;

use pinfold_confine::IdMap;
use rustix::process::{getgid, getuid};

use crate::paths::InstancePaths;

/// Far above the ids that distributions and directory services assign.
const FIRST: u32 = 1_000_000_000;
const SIZE: u32 = 65_536;
const RANGES: u32 = 40_000;
/// Owner of image layers on disk when running as root: in a range that no sandbox has.
pub const FIRST_LAYER_ID: u32 = FIRST - SIZE;

#[derive(Debug, Clone)]
pub(crate) struct IdRanges {
    directory: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RangeError {
    #[error("all {RANGES} id ranges are taken")]
    NoneLeft,
    #[error("could not take an id range in `{}`: {source}", directory.display())]
    Take { directory: PathBuf, source: io::Error },
}

impl IdRanges {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Takes a range for an instance; repeating the call returns the same one.
    pub(crate) fn take(&self, paths: &InstancePaths) -> Result<IdMap, RangeError> {
        let name = paths.name.as_str();
        if !getuid().is_root() {
            return Ok(IdMap { uid: getuid().as_raw(), gid: getgid().as_raw(), count: 1 });
        }
        let failed = |source| RangeError::Take { directory: self.directory.clone(), source };
        if let Some(known) = recorded_slot(paths) {
            return Ok(range(known));
        }
        // An earlier attempt may have taken a range and crashed before recording it.
        if paths.id_range_owner().exists()
            && let Some(slot) = self.find(name).map_err(failed)?
        {
            pinfold_private_files::write(&paths.ids(), slot.to_string()).map_err(failed)?;
            return Ok(range(slot));
        }
        pinfold_private_files::write(&paths.id_range_owner(), name).map_err(failed)?;
        // Start at a slot derived from the name, so that concurrent launches seldom collide.
        let start = name.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        for step in 0..RANGES {
            let slot = (start.wrapping_add(step)) % RANGES;
            // Hard-linked rather than created: the file appears with its whole content or not at all.
            match fs::hard_link(paths.id_range_owner(), self.directory.join(slot.to_string())) {
                Ok(()) => {
                    pinfold_private_files::write(&paths.ids(), slot.to_string()).map_err(failed)?;
                    return Ok(range(slot));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(RangeError::NoneLeft)
    }

    /// Frees the range of an instance. Scans all ranges only if a crash came before the range was recorded.
    pub(crate) fn free(&self, paths: &InstancePaths) -> io::Result<()> {
        let slot = match recorded_slot(paths) {
            Some(slot) => Some(slot),
            None => self.find(&paths.name)?,
        };
        let Some(path) = slot.map(|slot| self.directory.join(slot.to_string())) else { return Ok(()) };
        match fs::read_to_string(&path) {
            Ok(holder) if holder == paths.name => fs::remove_file(path),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn find(&self, name: &str) -> io::Result<Option<u32>> {
        let entries = match fs::read_dir(&self.directory) {
            // The directory is gone; that must not stop the rest of the teardown.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // A file listed a moment ago may be gone by now.
            if fs::read_to_string(entry.path()).unwrap_or_default() == name {
                return Ok(entry.file_name().to_str().and_then(|slot| slot.parse().ok()));
            }
        }
        Ok(None)
    }
}

fn recorded_slot(paths: &InstancePaths) -> Option<u32> {
    fs::read_to_string(paths.ids()).ok()?.parse().ok()
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
    use crate::paths::{DataPaths, make_directory};

    fn taken(ranges: &IdRanges) -> Vec<String> {
        let entries = fs::read_dir(&ranges.directory).unwrap();
        entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
    }

    /// `None`: only root has ranges.
    fn fixture() -> Option<(tempfile::TempDir, IdRanges, InstancePaths)> {
        if !getuid().is_root() {
            return None;
        }
        let data = tempfile::tempdir().unwrap();
        let data_paths = DataPaths::on_disk(data.path()).unwrap();
        let paths = data_paths.of(InstanceId { sandbox: SandboxId(1), generation: Generation(1) });
        make_directory(&paths.control, 0o700).unwrap();
        Some((data, IdRanges::new(data_paths.ids), paths))
    }

    #[test]
    fn a_range_names_its_instance_and_is_freed_with_it() {
        let Some((_data, ranges, paths)) = fixture() else { return };

        ranges.take(&paths).unwrap();

        assert_eq!(taken(&ranges), std::slice::from_ref(&paths.name));
        ranges.free(&paths).unwrap();
        assert_eq!(taken(&ranges), [] as [String; 0]);
    }

    #[test]
    fn a_range_taken_before_a_crash_is_found_again() {
        let Some((_data, ranges, paths)) = fixture() else { return };
        let first = ranges.take(&paths).unwrap();
        fs::remove_file(paths.ids()).unwrap();

        let again = ranges.take(&paths).unwrap();

        assert_eq!((again, taken(&ranges).len()), (first, 1));
    }
}
