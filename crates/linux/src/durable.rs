//! Syncs the output of an execution to disk before its end is reported, so that a client that saw the end can read
//! the output even after a power loss. Done outside the sandbox: a slow disk must not block the keeper.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;

/// The kernel writes back dirty pages after 30 seconds, so files older than this are on disk already.
const WRITEBACK_AGE: Duration = Duration::from_secs(120);

/// Syncs all output files of an execution. Missing directories and files are skipped: there is nothing left to lose.
pub(crate) fn sync_output(directory: &Path, execution: &str) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let mut is_new = false;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.strip_prefix(execution).is_some_and(|rest| rest.starts_with('.')) {
            continue;
        }
        match sync_file(&path) {
            Ok(kept) => is_new |= kept,
            // Log rotation removed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    // Sync the directory as well, so that the names of new files survive.
    if is_new { File::open(directory)?.sync_all() } else { Ok(()) }
}

/// Syncs one file. Returns whether it was recent enough to need that.
fn sync_file(path: &Path) -> io::Result<bool> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let is_new = is_recent(&file.metadata()?);
    if is_new {
        file.sync_data()?;
    }
    Ok(is_new)
}

/// An unreadable or future modification time counts as recent.
fn is_recent(file: &Metadata) -> bool {
    let age = file.modified().ok().and_then(|at| at.elapsed().ok());
    age.is_none_or(|age| age < WRITEBACK_AGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(directory: &Path, name: &str) -> File {
        let file = File::create(directory.join(name)).unwrap();
        fs::write(directory.join(name), "said").unwrap();
        file
    }

    #[test]
    fn only_recently_written_files_are_synced() {
        let directory = tempfile::tempdir().unwrap();
        let (young, old) = (file(directory.path(), "exe_1.0.log"), file(directory.path(), "exe_1.1.log"));
        let modified = young.metadata().unwrap().modified().unwrap() - 2 * WRITEBACK_AGE;
        old.set_modified(modified).unwrap();

        let kept =
            ["exe_1.0.log", "exe_1.1.log"].map(|name| sync_file(&directory.path().join(name)).unwrap());

        assert_eq!(kept, [true, false]);
    }

    #[test]
    fn missing_output_is_no_error_and_a_symlink_is() {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("exe_1.0.log")).unwrap();

        assert!(sync_output(&directory.path().join("nowhere"), "exe_1").is_ok());
        assert!(sync_output(directory.path(), "exe_2").is_ok());
        assert!(sync_output(directory.path(), "exe_1").is_err());
    }
}
