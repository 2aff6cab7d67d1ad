//! What a command wrote is on the disk before its end is told: whoever has heard of the end can read it again, also after
//! the power went. Done from outside, since a keeper has others to see to than a slow disk.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;

/// The kernel writes by itself what is older than half a minute.
const LONG_AGO: Duration = Duration::from_secs(120);

/// Where there is no directory or no file any more, there is nothing to lose.
pub(crate) fn keep(directory: &Path, execution: &str) -> io::Result<()> {
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
        match keep_one(&path) {
            Ok(kept) => is_new |= kept,
            // It made room for others.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    // Their names are new too.
    if is_new { File::open(directory)?.sync_all() } else { Ok(()) }
}

/// Says whether that was necessary.
fn keep_one(path: &Path) -> io::Result<bool> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let is_new = is_recent(&file.metadata()?);
    if is_new {
        file.sync_data()?;
    }
    Ok(is_new)
}

/// A time that cannot be told, or lies ahead, is one.
fn is_recent(file: &Metadata) -> bool {
    let age = file.modified().ok().and_then(|at| at.elapsed().ok());
    age.is_none_or(|age| age < LONG_AGO)
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
    fn only_what_was_written_lately_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let (young, old) = (file(directory.path(), "exe_1.0.log"), file(directory.path(), "exe_1.1.log"));
        let modified = young.metadata().unwrap().modified().unwrap() - 2 * LONG_AGO;
        old.set_modified(modified).unwrap();

        let kept = ["exe_1.0.log", "exe_1.1.log"].map(|name| keep_one(&directory.path().join(name)).unwrap());

        assert_eq!(kept, [true, false]);
    }

    #[test]
    fn what_is_gone_already_is_no_failure_and_a_link_is() {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("exe_1.0.log")).unwrap();

        assert!(keep(&directory.path().join("nowhere"), "exe_1").is_ok());
        assert!(keep(directory.path(), "exe_2").is_ok());
        assert!(keep(directory.path(), "exe_1").is_err());
    }
}
