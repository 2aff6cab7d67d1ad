//! Removes a tree that hostile code has made: of any depth, closed to its owner, full of links.
//!
//! No path is followed below the top and nothing recurses. What is deep is moved up first, so that two open
//! directories are enough for all of it.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, IFlags, Mode, OFlags, chmodat, ioctl_getflags, ioctl_setflags, openat,
    renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// Removes it if it is there, and says how many bytes of the disk it had taken.
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
    /// How many directories were moved up, for names that nobody has.
    moved: u64,
    freed: u64,
}

impl Removal {
    fn empty_top(&mut self) -> io::Result<()> {
        // What is moved up while the top is read may or may not be seen in that turn.
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

    /// Empties a directory below the top; what is not empty in it becomes the top's.
    fn empty(&mut self, directory: &OwnedFd) -> io::Result<()> {
        for (name, kind) in entries(directory)? {
            if self.remove_flat(Some(directory), &name, kind)? {
                continue;
            }
            // To be moved, a directory must be open to its owner: its link to its parent changes.
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

    /// Whether it is gone: a directory with something in it is not.
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
                unfix(&fixed);
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

/// What must not be changed must not be removed either: first it may be changed again.
fn unfix(descriptor: &OwnedFd) {
    let fixed = IFlags::IMMUTABLE | IFlags::APPEND;
    // Where this fails, so does the removal, which says why.
    if let Ok(flags) = ioctl_getflags(descriptor)
        && flags.intersects(fixed)
    {
        let _ = ioctl_setflags(descriptor, flags - fixed);
    }
}

/// All names in it but its own two. Read at once, so that nothing changes under the reader.
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

/// Opens a directory, and opens it up if its owner has shut it.
fn open(parent: &impl std::os::fd::AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    const WHOLE: Mode = Mode::RWXU;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode;
    let shut = !Mode::from_raw_mode(mode).contains(WHOLE);
    if FileType::from_raw_mode(mode) == FileType::Directory && shut {
        chmodat(parent, name, WHOLE, AtFlags::empty())?;
    }
    let directory = openat(parent, name, flags, Mode::empty())?;
    unfix(&directory);
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
        let top = directory.path().join("body");
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
        let (top, outside) = (directory.path().join("body"), directory.path().join("outside"));
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
    fn directories_that_their_owner_has_shut_are_opened_up() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().join("body");
        fs::create_dir_all(top.join("shut/shut/shut")).unwrap();
        for path in ["shut/shut/shut", "shut/shut", "shut"] {
            fs::set_permissions(top.join(path), fs::Permissions::from_mode(0o000)).unwrap();
        }

        remove_tree(&top).unwrap();

        assert!(!top.exists());
    }

    #[test]
    fn what_is_not_there_is_removed_already() {
        let directory = tempfile::tempdir().unwrap();

        assert_eq!(remove_tree(&directory.path().join("nothing")).unwrap(), 0);
    }
}
