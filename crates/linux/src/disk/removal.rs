//! Removes a directory tree made by hostile code: of any depth, with closed permissions, full of symlinks.
//!
//! No path below the top is followed and nothing recurses. Deep directories are moved up first, so two open
//! descriptors suffice.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, IFlags, Mode, OFlags, chmodat, ioctl_getflags, ioctl_setflags, openat,
    renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// Removes the tree if it exists. Returns the bytes of disk that it used.
pub(crate) fn remove_tree(path: &Path) -> io::Result<u64> {
    let top = match open(&CWD, &c_name(path)?) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(0),
        Err(Errno::NOTDIR | Errno::LOOP) => {
            unlinkat(CWD, path, AtFlags::empty())?;
            return Ok(0);
        }
        Err(error) => return Err(error.into()),
    };
    let mut removal = Removal { top, moved: 0, freed: 0 };
    removal.empty_top()?;
    match unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(removal.freed),
        Err(error) => Err(error.into()),
    }
}

struct Removal {
    top: OwnedFd,
    /// Counter for unique names of moved directories.
    moved: u64,
    freed: u64,
}

impl Removal {
    fn empty_top(&mut self) -> io::Result<()> {
        // Directories moved up while the top is read may or may not show up in the same pass, so repeat until it is
        // empty.
        loop {
            let names = entries(&self.top)?;
            if names.is_empty() {
                return Ok(());
            }
            for (name, kind) in names {
                if self.remove_flat(None, &name, kind)? {
                    continue;
                }
                let directory = open(&self.top, &name)?;
                self.empty(&directory)?;
                self.remove_flat(None, &name, kind)?;
            }
        }
    }

    /// Empties a directory below the top; its non-empty subdirectories move to the top.
    fn empty(&mut self, directory: &OwnedFd) -> io::Result<()> {
        for (name, kind) in entries(directory)? {
            if self.remove_flat(Some(directory), &name, kind)? {
                continue;
            }
            // A directory must be writable by its owner to be moved, since its `..` entry changes.
            drop(open(directory, &name)?);
            loop {
                self.moved += 1;
                let new = format!("moved-{}", self.moved);
                match renameat(directory, &name, &self.top, new.as_str()) {
                    Ok(()) => break,
                    Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Removes a file or an empty directory. Returns false for a directory that is not empty.
    fn remove_flat(&mut self, directory: Option<&OwnedFd>, name: &CStr, kind: FileType) -> io::Result<bool> {
        let directory = directory.unwrap_or(&self.top);
        let found = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let how = if kind == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let mut removed = unlinkat(directory, name, how);
        if removed == Err(Errno::PERM) {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            if let Ok(fixed) = openat(directory, name, flags, Mode::empty()) {
                clear_immutable(&fixed);
            }
            removed = unlinkat(directory, name, how);
        }
        match removed {
            Ok(()) => {
                if found.st_nlink == 1 || kind == FileType::Directory {
                    let blocks = u64::try_from(found.st_blocks).unwrap_or(0);
                    self.freed = self.freed.saturating_add(blocks.saturating_mul(512));
                }
                Ok(true)
            }
            Err(Errno::NOENT) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST) if kind == FileType::Directory => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Clears the immutable and append-only flags, which forbid removal.
fn clear_immutable(descriptor: &OwnedFd) {
    let fixed = IFlags::IMMUTABLE | IFlags::APPEND;
    // If this fails, the removal fails too and reports why.
    if let Ok(flags) = ioctl_getflags(descriptor)
        && flags.intersects(fixed)
    {
        let _ = ioctl_setflags(descriptor, flags - fixed);
    }
}

/// All entries except `.` and `..`. Read at once, so that removals do not disturb the reading.
fn entries(directory: &OwnedFd) -> io::Result<Vec<(CString, FileType)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                FileType::from_raw_mode(statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
            }
            kind => kind,
        };
        names.push((name.to_owned(), kind));
    }
    Ok(names)
}

/// Opens a directory, after restoring owner permissions if they are missing.
fn open(parent: &impl std::os::fd::AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    const WHOLE: Mode = Mode::RWXU;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode;
    let closed = !Mode::from_raw_mode(mode).contains(WHOLE);
    if FileType::from_raw_mode(mode) == FileType::Directory && closed {
        chmodat(parent, name, WHOLE, AtFlags::empty())?;
    }
    let directory = openat(parent, name, flags, Mode::empty())?;
    clear_immutable(&directory);
    Ok(directory)
}

fn c_name(path: &Path) -> io::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkdirat;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_tree_of_ten_thousand_levels_is_removed_with_few_descriptors() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().join("instance");
        fs::create_dir(&top).unwrap();
        let mut at = open(&CWD, &c_name(&top).unwrap()).unwrap();
        for level in 0..10_000 {
            mkdirat(&at, "d", Mode::RWXU).unwrap();
            if level % 1_000 == 0 {
                mkdirat(&at, "moved-1", Mode::RWXU).unwrap();
            }
            at = openat(&at, "d", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        }

        assert!(remove_tree(&top).unwrap() > 0);

        assert!(!top.exists());
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (top, outside) = (directory.path().join("instance"), directory.path().join("outside"));
        fs::create_dir_all(top.join("inner")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "kept").unwrap();
        symlink(&outside, top.join("link")).unwrap();
        symlink("../../outside", top.join("inner/link")).unwrap();

        remove_tree(&top).unwrap();

        assert!(!top.exists());
        assert_eq!(fs::read_to_string(outside.join("precious")).unwrap(), "kept");
    }

    #[test]
    fn directories_without_permissions_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().join("instance");
        fs::create_dir_all(top.join("closed/closed/closed")).unwrap();
        for path in ["closed/closed/closed", "closed/closed", "closed"] {
            fs::set_permissions(top.join(path), fs::Permissions::from_mode(0o000)).unwrap();
        }

        remove_tree(&top).unwrap();

        assert!(!top.exists());
    }

    #[test]
    fn removing_a_missing_tree_succeeds() {
        let directory = tempfile::tempdir().unwrap();

        assert_eq!(remove_tree(&directory.path().join("nothing")).unwrap(), 0);
    }
}
