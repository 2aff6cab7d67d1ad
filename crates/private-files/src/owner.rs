//! Names of temporary files that say which process made them: `PID-START`, with the start time in clock ticks since boot,
//! which tells a reused pid apart. A file left behind by a killed process is known by its name, never by its age: a slow
//! process is not a dead one.

use std::fs;
use std::io;
use std::path::Path;

/// Stands before the process in the name of a temporary file.
const TEMPORARY: &str = ".tmp-";

/// What is known of the process that made a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerLiveness {
    Alive,
    /// The process has ended: no process writes the file any more.
    Gone,
    /// The name does not say whose it is, or the process could not be looked up.
    Unknown,
}

/// The part of a file name that names this process.
pub fn own_name() -> io::Result<String> {
    let pid = std::process::id();
    let start = i32::try_from(pid).map_err(io::Error::other).and_then(pinfold_procfs::start_time)?;
    Ok(format!("{pid}-{}", start.ok_or(io::ErrorKind::NotFound)?))
}

/// Whether the process of such a name is alive. The name may be followed by a dot or another `-` and anything.
#[must_use]
pub fn owner_liveness(name: &str) -> OwnerLiveness {
    let mut parts = name.split(['-', '.']);
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (Some(pid), Some(start)) = (number(), number()) else { return OwnerLiveness::Unknown };
    let Ok(pid) = i32::try_from(pid) else { return OwnerLiveness::Unknown };
    match pinfold_procfs::start_time(pid) {
        Ok(Some(found)) if found == start => OwnerLiveness::Alive,
        Ok(_) => OwnerLiveness::Gone,
        Err(_) => OwnerLiveness::Unknown,
    }
}

/// The name of a temporary file or directory of this process. The caller may append `-` and anything.
pub fn temporary_name(what: &str) -> io::Result<String> {
    Ok(format!("{what}{TEMPORARY}{}", own_name()?))
}

/// Removes the temporary files and directories in a directory whose process is gone, and returns how many. A missing
/// directory has none.
pub fn remove_ownerless(directory: &Path) -> io::Result<usize> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut removed = 0;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.rsplit_once(TEMPORARY)).map(|(_, owner)| owner);
        if owner.map(owner_liveness) != Some(OwnerLiveness::Gone) {
            continue;
        }
        let is_directory = entry.file_type()?.is_dir();
        let done =
            if is_directory { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        match done {
            // Another process removes it too.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(()) => removed += 1,
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_temporary_files_of_gone_processes_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let own = temporary_name("upload").unwrap() + "-aB3";
        let kept = ["server.json", "notes.tmp-", "x.tmp-abc", "pinfold.db", own.as_str()];
        let ownerless = ["upload.tmp-1-1-aB3", "server.tmp-4194300-99"];
        for name in kept.iter().chain(&ownerless) {
            fs::write(place.path().join(name), "").unwrap();
        }
        fs::create_dir_all(place.path().join("layer.tmp-1-1/etc")).unwrap();

        let removed = remove_ownerless(place.path()).unwrap();

        assert_eq!(removed, 3);
        let mut left: Vec<_> = fs::read_dir(place.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut kept = kept.map(str::to_owned);
        kept.sort();
        assert_eq!(left, kept);
    }

    #[test]
    fn own_name_is_alive_and_a_reused_pid_is_gone() {
        let own = own_name().unwrap();
        let (pid, start) = own.split_once('-').unwrap();

        assert_eq!(owner_liveness(&own), OwnerLiveness::Alive);
        assert_eq!(owner_liveness(&format!("{own}-3.tar")), OwnerLiveness::Alive);
        assert_eq!(
            owner_liveness(&format!("{pid}-{}", start.parse::<u64>().unwrap() + 1)),
            OwnerLiveness::Gone
        );
        assert_eq!(owner_liveness("notes"), OwnerLiveness::Unknown);
        assert_eq!(owner_liveness("17"), OwnerLiveness::Unknown);
    }
}
