//! Directories and files that only this user can read: 0700 and 0600 from the moment they exist, since a later `chmod`
//! leaves a moment in which another user can open them. A umask can only take bits away.
//!
//! The data directory holds command lines, output and tokens, so everything in it is made with these functions, or
//! lies below a directory that was.

mod owner;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

pub use owner::{OwnerLiveness, own_name, owner_liveness, remove_ownerless, temporary_name};

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Read, write and search by group and others.
const OF_OTHERS: u32 = 0o077;

/// Options that make a file for this user alone. What they open is up to the caller.
#[must_use]
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Makes an empty file, or empties an existing one.
pub fn create(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// Replaces the content of a file, which is made if it is missing.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(content.as_ref())
}

/// Makes a directory with its parents. An existing one of this user is tightened; its parents are left alone.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)?;
    tighten(path)
}

/// Takes the rights of group and others away from a file or directory of this user. Files of another user are left
/// alone: only that user and root can change their modes.
pub fn tighten(path: &Path) -> io::Result<()> {
    let found = fs::metadata(path)?;
    let mode = found.mode();
    if mode & OF_OTHERS != 0 && found.uid() == rustix::process::geteuid().as_raw() {
        fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777 & !OF_OTHERS))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn new_directories_and_files_are_private_under_an_open_umask() {
        let place = tempfile::tempdir().unwrap();
        rustix::process::umask(rustix::fs::Mode::empty());

        make_directory(&place.path().join("a/b")).unwrap();
        create(&place.path().join("a/b/c")).unwrap();

        assert_eq!(mode(&place.path().join("a")), 0o700);
        assert_eq!(mode(&place.path().join("a/b")), 0o700);
        assert_eq!(mode(&place.path().join("a/b/c")), 0o600);
    }

    #[test]
    fn existing_directory_of_this_user_is_tightened() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("wide");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();

        make_directory(&path).unwrap();

        assert_eq!(mode(&path), 0o700);
    }
}
